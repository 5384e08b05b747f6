package dev.penstock.spark;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;

/** The log of one partition, and the transaction that holds what a task writes of it. */
final class PartitionClients implements KeptClients.Clients {
  // A poll returns with the first record, so a longer one gains nothing, and would let a task that
  // waits for its log sleep through an epoch; a shorter one would keep a core busy.
  private static final long LEAST_POLL_MS = 10;
  private static final long MOST_POLL_MS = 1_000;

  private final PartitionLog log;
  private final Transaction transaction;
  private final Duration pollTimeout;

  /** {@code transaction}: null if the query writes at least once. */
  PartitionClients(PartitionLog log, Transaction transaction, Duration pollTimeout) {
    this.log = log;
    this.transaction = transaction;
    this.pollTimeout = pollTimeout;
  }

  /**
   * Those of a task that begins at an offset, or after what earlier transactions have committed.
   *
   * @param pollTimeoutMs the option kafkaConsumer.pollTimeoutMs
   * @param transactions null if the query writes at least once
   */
  static PartitionClients open(
      TopicPartition partition,
      long start,
      boolean failOnDataLoss,
      long pollTimeoutMs,
      Map<String, Object> consumer,
      TransactionOptions transactions) {
    Duration poll = pollTimeout(pollTimeoutMs);
    Transaction transaction = null;
    PartitionLog log = null;
    try {
      var asked = transactions == null ? consumer : transactions.consumer(consumer);
      // In this order: nobody else can commit the partition's offset any more when it is read.
      transaction = transactions == null ? null : new Transaction(transactions, partition);
      var consumers = new RenewedConsumers(new ClientParameters(asked));
      log = new PartitionLog(partition, start, failOnDataLoss, poll, consumers);
      if (transaction != null) {
        log.pass(transaction.findCommitted(log::committed));
      }
      return new PartitionClients(log, transaction, poll);
    } catch (InterruptException stopped) {
      close(log, transaction);
      throw Unchecked.interrupted();
    } catch (RuntimeException failed) {
      close(log, transaction);
      throw failed;
    }
  }

  /** The time of a poll, within bounds. */
  static Duration pollTimeout(long askedMs) {
    return Duration.ofMillis(Math.max(LEAST_POLL_MS, Math.min(MOST_POLL_MS, askedMs)));
  }

  PartitionLog log() {
    return log;
  }

  /** What the records so far are written in; null if the query writes at least once. */
  Transaction transaction() {
    return transaction;
  }

  /** For how many nanoseconds a task may wait for a record before it looks at its transaction. */
  long patience() {
    long poll = pollTimeout.toNanos();
    return transaction == null ? poll : Math.min(poll, Math.max(transaction.left(), 0));
  }

  /** Commits what was written in time: of all that was read, or a restart loses some. */
  void commitIfDue() {
    if (transaction != null && transaction.left() <= 0) {
      commit();
    }
  }

  /** Commits what was written of all that was read. */
  void commit() {
    try {
      transaction.commit(log.next());
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  @Override
  public boolean ownsId() {
    return transaction != null;
  }

  @Override
  public boolean isAt(long start) {
    return log.next() == start;
  }

  @Override
  public void close() {
    close(log, transaction);
  }

  private static void close(PartitionLog log, Transaction transaction) {
    if (log != null) {
      log.close();
    }
    if (transaction != null) {
      transaction.close();
    }
  }
}
