package dev.penstock.spark.jdbc;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells a merge that takes minutes from a server that is gone without a word: another session asks
 * whether the first one works.
 */
final class MergeWatch implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(MergeWatch.class);
  private static final Timer TIMER = new Timer("penstock-merges", true);
  private static final AtomicLong SIGNS = new AtomicLong();
  private static final long LOOK_MS = 10_000;
  private static final int ANSWER_SECONDS = 10;

  private final Database database;
  private final TimerTask looking;
  /** Of the session that merges; 0: of none yet. */
  private volatile int backend;

  MergeWatch(Database database) {
    this.database = database;
    looking =
        new TimerTask() {
          @Override
          public void run() {
            look();
          }
        };
    TIMER.schedule(looking, LOOK_MS, LOOK_MS);
  }

  /** How often a merge was found at work. */
  static long signsOfLife() {
    return SIGNS.get();
  }

  void follow(int pid) {
    backend = pid;
  }

  private void look() {
    try {
      if (isAtWork()) {
        SIGNS.incrementAndGet();
      }
    } catch (RuntimeException | SQLException unknown) {
      LOG.info("Whether the merge goes on is not known: {}", unknown.getClass().getSimpleName());
    }
  }

  private boolean isAtWork() throws SQLException {
    // One that waits for a standby has done its work.
    String asked =
        "SELECT FROM pg_stat_activity WHERE pid = ? AND state = 'active'"
            + " AND wait_event IS DISTINCT FROM 'SyncRep'";
    try (Connection beside = database.connect(ANSWER_SECONDS);
        PreparedStatement statement = beside.prepareStatement(asked)) {
      statement.setInt(1, backend);
      return statement.executeQuery().next();
    }
  }

  @Override
  public void close() {
    looking.cancel();
  }
}
