package dev.penstock.spark.jdbc;

import dev.penstock.spark.FailedRecord;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/**
 * What a database has refused, without the row: PostgreSQL puts values into its messages, details
 * and contexts. A class of SQLSTATE whose messages name no value is quoted.
 */
public final class DatabaseException extends RuntimeException implements FailedRecord.Knowing {
  private static final long serialVersionUID = 1;
  /**
   * Connections, logins, transactions, names and rights, resources, locks, the server's own state
   * (PostgreSQL's documentation, appendix A).
   */
  private static final Set<String> QUOTED =
      Set.of("08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58");
  private static final String UNKNOWN = "XX000";
  /**
   * How the context of a COPY begins: the value may follow, after a colon. Nothing later in it
   * counts, which may be of a value.
   */
  private static final Pattern COPIED =
      Pattern.compile(
          "(?:JSON data, line \\d+: [^\n]*\n)?COPY [^,]+, line (\\d+)(?:, column ([^:\n]+))?");

  private final String sqlState;

  DatabaseException(String sqlState, String message) {
    super(message);
    this.sqlState = sqlState;
  }

  /** The classes of SQLSTATE are its first two letters. */
  public String getSqlState() {
    return sqlState;
  }

  /** Whether the same may succeed in a new transaction, or a new session. */
  boolean isPassing() {
    return isOf("08", "40", "57P");
  }

  boolean isOf(String... states) {
    return List.of(states).stream().anyMatch(sqlState::startsWith);
  }

  /** With the record that is at fault, if it is one of these. */
  static DatabaseException of(SQLException error, ReadRecords read) {
    DatabaseException made = of(error);
    Matcher copied = error instanceof PSQLException of ? copied(of.getServerErrorMessage()) : null;
    FailedRecord record = copied == null ? null : read.of(Integer.parseInt(copied.group(1)));
    if (record != null) {
      made.addSuppressed(record);
    }
    return made;
  }

  static DatabaseException of(SQLException error) {
    String state = error.getSQLState() == null ? UNKNOWN : error.getSQLState();
    ServerErrorMessage told =
        error instanceof PSQLException of ? of.getServerErrorMessage() : null;
    // What comes from within a function may be of a row, under any SQLSTATE.
    boolean isOwn =
        told == null || (told.getWhere() == null && told.getInternalQuery() == null);
    List<String> where = isOwn || copied(told) != null ? places(told) : List.of();
    boolean isQuoted = isOwn && QUOTED.contains(state.substring(0, 2));
    String message = told == null ? error.getMessage() : told.getMessage();
    String what = isQuoted ? ": " + firstLine(message) : "";
    String at = where.isEmpty() ? "" : " (" + String.join(", ", where) + ")";
    var made = new DatabaseException(state, "SQLSTATE " + state + what + at);
    made.setStackTrace(error.getStackTrace());
    return made;
  }

  private static List<String> places(ServerErrorMessage told) {
    List<String> found = new ArrayList<>();
    if (told == null) {
      return found;
    }
    if (told.getTable() != null && !told.getTable().startsWith(Target.STAGING)) {
      add(found, "table", told.getTable());
    }
    add(found, "column", told.getColumn());
    add(found, "constraint", told.getConstraint());
    add(found, "type", told.getDatatype());
    Matcher copied = copied(told);
    if (copied != null && told.getColumn() == null) {
      add(found, "column", copied.group(2));
    }
    return found;
  }

  private static Matcher copied(ServerErrorMessage told) {
    Matcher found =
        told == null || told.getWhere() == null ? null : COPIED.matcher(told.getWhere());
    return found != null && found.lookingAt() ? found : null;
  }

  private static void add(List<String> found, String kind, String name) {
    if (name != null) {
      found.add(kind + " " + name);
    }
  }

  private static String firstLine(String message) {
    return message == null ? "" : message.lines().findFirst().orElse("");
  }
}
