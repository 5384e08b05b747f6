package dev.penstock.spark.jdbc;

import dev.penstock.spark.DifferentReplay;
import dev.penstock.spark.Unchecked;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which batch of a stream is in the database: a row of the table {@code ledger}, changed in the
 * transaction that writes the batch. Its run fences earlier drivers.
 */
public final class Ledger {
  private static final Logger LOG = LoggerFactory.getLogger(Ledger.class);
  private static final int TRIES = 5;
  private static final long PAUSE_MS = 200;
  /** Up to here rows are deleted from the staging table, which autovacuum cleans. */
  private static final long DELETED_ROWS = 10_000;
  /** That of the driver, kept from batch to batch. Null before the first one, and after an error. */
  private static Session session;
  private static String prepared;
  /** How many rows the staging table may still hold, alive or dead. */
  private static long staged;
  /** The newest batch that was written, and for which stream. */
  private static volatile long written = -1;

  private static volatile String writtenFor;

  private Ledger() {}

  /** Another number as long as the server works at a batch, while Spark has no task. */
  public static long signsOfLife() {
    return MergeWatch.signsOfLife();
  }

  /** The newest batch that this process has written for a stream; -1: none. */
  static long newestWritten(String stream) {
    return stream.equals(writtenFor) ? written : -1;
  }

  /** Creates the staging table of the run, once. */
  static synchronized void prepare(Database database, Target target) {
    if (target.staging().equals(prepared)) {
      return;
    }
    dropSession(); // of the run before
    again(
        database,
        connection -> {
          if (one(connection, Target.OWN_STAGING, target.staging()) == null) {
            try (Statement statement = connection.createStatement()) {
              statement.execute(target.createStaging());
            }
          }
          connection.commit();
        });
    prepared = target.staging();
    staged = 0;
    written = -1;
  }

  /** Brings a batch into the table, unless it is there: so it can be repeated after any error. */
  static synchronized void write(
      Database database, Target target, long batch, List<StagedRows> parts) {
    try (var watch = new MergeWatch(database)) {
      bringIn(database, target, batch, parts, watch);
    }
    written = batch;
    writtenFor = target.stream();
  }

  private static void bringIn(
      Database database, Target target, long batch, List<StagedRows> parts, MergeWatch watch) {
    long rows = parts.stream().mapToLong(StagedRows::rows).sum();
    long hash = parts.stream().mapToLong(StagedRows::sumOfHashes).sum();
    Object[] tasks = parts.stream().map(StagedRows::task).toArray();
    staged += rows;
    boolean isLarge = staged > DELETED_ROWS;
    again(
        database,
        connection -> {
          try (Statement statement = connection.createStatement()) {
            // A driver that freezes in here does not block the one that takes its place.
            statement.execute(
                "SET LOCAL idle_in_transaction_session_timeout = '30s';"
                    + " SET LOCAL lock_timeout = '60s'; SET LOCAL synchronous_commit = on");
          }
          Array counted = connection.createArrayOf("bigint", tasks);
          if (isDue(connection, target, batch, rows, hash, watch)) {
            require(connection, target, counted, rows);
            for (String each : target.merge()) {
              update(connection, each, counted);
            }
            requireShape(connection, target);
            note(connection, target, batch, rows, hash);
          }
          if (!isLarge) {
            update(connection, target.delete(), counted);
          }
          connection.commit();
        });
    if (isLarge && truncate(database, target)) {
      staged = 0;
    }
  }

  /** Whether the batch is not there yet; throws if another driver has taken over. */
  private static boolean isDue(
      Connection connection, Target target, long batch, long rows, long hash, MergeWatch watch)
      throws SQLException {
    // Not the driver's own answer, which is that of a pooler in between.
    String asked =
        "SELECT run, batch, rows, hash, pg_backend_pid() FROM " + target.ledger()
            + " WHERE stream = ? FOR UPDATE";
    try (PreparedStatement statement = connection.prepareStatement(asked)) {
      statement.setString(1, target.stream());
      ResultSet found = statement.executeQuery();
      if (!found.next() || found.getLong(1) != target.run()) {
        throw new FencedException();
      }
      watch.follow(found.getInt(5));
      long newest = found.getLong(2);
      if (newest == batch) {
        String before = DifferentReplay.describe(found.getLong(3), found.getLong(4));
        String now = DifferentReplay.describe(rows, hash);
        if (!before.equals(now)) {
          new DifferentReplay(batch, -1, before, now).note();
        }
      } else if (newest > batch) {
        throw new FencedException();
      } else if (newest < newestWritten(target.stream())) {
        throw new OlderDatabaseException(newest, written);
      }
      return newest < batch;
    }
  }

  /** A server that crashes empties tables that it does not log. */
  private static void require(Connection connection, Target target, Array parts, long rows)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(target.count())) {
      statement.setArray(1, parts);
      ResultSet found = statement.executeQuery();
      found.next();
      if (found.getLong(1) != rows) {
        throw new DatabaseException(
            "57P02",
            "The staging table has " + found.getLong(1) + " of " + rows + " rows of the batch: the"
                + " server was restarted. The batch runs again.");
      }
    }
  }

  private static void note(Connection connection, Target target, long batch, long rows, long hash)
      throws SQLException {
    String noted =
        "UPDATE " + target.ledger()
            + " SET batch = ?, rows = ?, hash = ?, written_at = now() WHERE stream = ?";
    try (PreparedStatement statement = connection.prepareStatement(noted)) {
      statement.setLong(1, batch);
      statement.setLong(2, rows);
      statement.setLong(3, hash);
      statement.setString(4, target.stream());
      statement.executeUpdate();
    }
  }

  private static void update(Connection connection, String statement, Array parts)
      throws SQLException {
    try (PreparedStatement prepared = connection.prepareStatement(statement)) {
      prepared.setArray(1, parts);
      prepared.executeUpdate();
    }
  }

  /** The columns were compared before the first batch; now nobody can change them. */
  private static void requireShape(Connection connection, Target target) throws SQLException {
    if (!target.shape().equals(one(connection, Target.SHAPE, target.table()))) {
      throw new DatabaseException(
          "55000", "Somebody has altered the table. Its columns are compared anew.");
    }
  }

  /** The first column of the only row; null without one. */
  static String one(Connection connection, String asked, String of) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(asked)) {
      statement.setString(1, of);
      ResultSet found = statement.executeQuery();
      return found.next() ? found.getString(1) : null;
    }
  }

  /** Whether it was possible. Not in the transaction: a straggler may still copy. */
  private static boolean truncate(Database database, Target target) {
    try {
      again(
          database,
          connection -> {
            try (Statement statement = connection.createStatement()) {
              statement.execute("SET LOCAL lock_timeout = '3s'");
              statement.execute("TRUNCATE " + target.staging());
              connection.commit();
            }
          });
      return true;
    } catch (DatabaseException busy) {
      LOG.info("The staging table is not emptied now: {}", busy.getMessage());
      return false;
    }
  }

  private interface Work {
    void with(Connection connection) throws SQLException;
  }

  /** Runs it in a transaction, and again if a new transaction or session may succeed. */
  private static void again(Database database, Work work) {
    for (int left = TRIES; ; left--) {
      try {
        work.with(connection(database));
        return;
      } catch (SQLException refused) {
        giveUpUnless(left > 0, DatabaseException.of(refused));
      } catch (DatabaseException refused) {
        giveUpUnless(left > 0, refused);
      } catch (RuntimeException refused) {
        dropSession();
        throw refused;
      }
      pause();
    }
  }

  private static void giveUpUnless(boolean mayTry, DatabaseException error) {
    dropSession();
    if (!mayTry || !error.isPassing()) {
      throw error;
    }
    LOG.info("The database is asked again: {}", error.getMessage());
  }

  /** A server or a network may have forgotten the one before. */
  private static Connection connection(Database database) throws SQLException {
    if (session != null && !session.isAlive()) {
      session = null;
    }
    if (session == null) {
      session = new Session(database);
      session.connection().setAutoCommit(false);
    }
    return session.connection();
  }

  private static void pause() {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException stopped) {
      throw Unchecked.<RuntimeException>rethrow(stopped);
    }
  }

  private static void dropSession() {
    if (session != null) {
      session.close();
      session = null;
    }
  }
}
