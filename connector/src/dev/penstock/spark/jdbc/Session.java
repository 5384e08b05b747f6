package dev.penstock.spark.jdbc;

import dev.penstock.spark.BatchOfRun;
import dev.penstock.spark.KeptClients;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.BitSet;
import org.apache.spark.TaskContext;

/** A session of a task, which it leaves to another one: there are as many as tasks run at once. */
final class Session implements KeptClients.Clients {
  private static final int ANSWER_SECONDS = 5;
  private static final BitSet TAKEN = new BitSet();

  private final Connection connection;

  /** What one task at a time has. */
  record Slot(Database database, int number) {
    static Slot take(Database database) {
      synchronized (TAKEN) {
        int free = TAKEN.nextClearBit(0);
        TAKEN.set(free);
        return new Slot(database, free);
      }
    }

    void release() {
      synchronized (TAKEN) {
        TAKEN.clear(number);
      }
    }
  }

  Session(Database database) {
    connection = database.connect(0); // the supervisor sees what hangs
  }

  /** One that was left in this slot, or a new one. */
  static Session in(Slot slot, BatchOfRun batch) {
    if (KeptClients.take(TaskContext.get(), slot, batch, batch.number()) instanceof Session left
        && left.isAlive()) {
      return left;
    }
    return new Session(slot.database());
  }

  void leaveIn(Slot slot, BatchOfRun batch) {
    KeptClients.keepBeside(TAKEN.length(), slot, batch, this);
  }

  Connection connection() {
    return connection;
  }

  boolean isAlive() {
    try {
      if (connection.isValid(ANSWER_SECONDS)) {
        return true;
      }
    } catch (SQLException gone) {
      // as below
    }
    close();
    return false;
  }

  @Override
  public boolean ownsId() {
    return false;
  }

  @Override
  public boolean isAt(long batch) {
    return true;
  }

  @Override
  public void close() {
    try {
      connection.close();
    } catch (SQLException gone) {
      // It is closed in any case.
    }
  }
}
