package dev.penstock.spark.jdbc;

import dev.penstock.spark.secrets.SecretFiles;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import org.postgresql.Driver;

/**
 * Where a database is, and how to log in. The files are those of Secrets, and are read for each
 * connection, so that a new password restarts nothing.
 *
 * @param url without a login
 * @param username the file with the user's name; null if the URL or the server needs none
 * @param password the file with the password
 * @param certificates the file with the authorities to trust; empty: those that Java trusts; null:
 *     what the URL says of TLS
 * @param application how the server lists the sessions: those of an earlier run are ended by it
 */
public record Database(
    String url, String username, String password, String certificates, String application)
    implements Serializable {
  private static final long serialVersionUID = 1;
  private static final String CONNECT_SECONDS = "10";

  /** A new session; throws DatabaseException. {@code answerSeconds}: for each answer; 0: for ever. */
  Connection connect(int answerSeconds) {
    try {
      Connection made = new Driver().connect(url, properties(answerSeconds));
      if (made == null) {
        throw new DatabaseException("08001", "PostgreSQL's driver cannot read the URL.");
      }
      try (Statement statement = made.createStatement()) {
        // Those of the role are meant for people. And each notice of a trigger would be kept.
        statement.execute("SET statement_timeout = 0; SET client_min_messages = error");
      }
      return made;
    } catch (SQLException refused) {
      throw DatabaseException.of(refused);
    }
  }

  private Properties properties(int answerSeconds) {
    Properties properties = new Properties(); // what the URL says wins over them
    properties.setProperty("ApplicationName", application);
    properties.setProperty("connectTimeout", CONNECT_SECONDS);
    properties.setProperty("loginTimeout", CONNECT_SECONDS);
    properties.setProperty("socketTimeout", Integer.toString(answerSeconds));
    properties.setProperty("prepareThreshold", "0"); // a pooler knows no prepared statements
    properties.setProperty("tcpKeepAlive", "true");
    if (username != null) {
      properties.setProperty("user", content(username));
      properties.setProperty("password", content(password));
    }
    if (certificates != null) {
      properties.setProperty("sslmode", "verify-full");
      if (certificates.isEmpty()) {
        properties.setProperty("sslfactory", "org.postgresql.ssl.DefaultJavaSSLFactory");
      } else {
        properties.setProperty("sslrootcert", certificates);
      }
    }
    return properties;
  }

  private static String content(String file) {
    try {
      return SecretFiles.read(Path.of(file));
    } catch (IOException missing) {
      throw new DatabaseException("28000", "The Secret's file " + file + " cannot be read.");
    }
  }
}
