package dev.penstock.spark;

import java.io.IOException;
import java.time.Duration;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.kafka010.KafkaContinuousInputPartition;
import org.apache.spark.sql.kafka010.KafkaSourcePartitionOffset;
import org.apache.spark.util.TaskCompletionListener;

/** Reads one partition for a task of the continuous engine, epoch by epoch. */
final class KafkaPartitionReader implements TransactionalWriter.Reader {
  private static final ThreadLocal<KafkaPartitionReader> OF_THREAD = new ThreadLocal<>();
  // A poll returns with the first record, so a longer one gains nothing, and would let a task that
  // waits for its log sleep through an epoch; a shorter one would keep a core busy.
  private static final long LEAST_POLL_MS = 10;
  private static final long MOST_POLL_MS = 1_000;

  private final TopicPartition partition;
  private final Duration pollTimeout;
  private final TaskContext task;
  private final EpochFollower epoch;
  private final PartitionLog log;
  private final RecordInHand inHand;
  private final RecordRow row;
  /** Null if the query writes at least once. */
  private final Transaction transaction;
  /** Null if Spark ends the epochs. */
  private DataWriter<InternalRow> writer;

  KafkaPartitionReader(
      KafkaContinuousInputPartition input,
      TransactionOptions transactions,
      LeftOut leftOut,
      TaskContext task,
      long epochPollMs) {
    this.task = task;
    partition = input.topicPartition();
    pollTimeout = pollTimeout(input.pollTimeoutMs());
    row = new RecordRow(partition.topic(), input.includeHeaders());
    TaskCompletionListener close = ended -> close();
    task.addTaskCompletionListener(close);
    try {
      // In this order: nobody else can commit the partition's offset any more when it is read.
      transaction =
          transactions == null ? null : new Transaction(transactions, partition, this::committed);
      var asked =
          transactions == null ? input.kafkaParams() : transactions.consumer(input.kafkaParams());
      log =
          new PartitionLog(
              partition,
              input.startOffset(),
              input.failOnDataLoss(),
              pollTimeout,
              new RenewedConsumers(new ClientParameters(asked)));
      if (transaction != null) {
        log.pass(transaction.findCommitted());
      }
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
    epoch = new EpochFollower(task, epochPollMs);
    inHand = new RecordInHand(partition, input.startOffset(), leftOut, task);
    OF_THREAD.set(this);
  }

  /** The option kafkaConsumer.pollTimeoutMs, within bounds. */
  static Duration pollTimeout(long asked) {
    return Duration.ofMillis(Math.max(LEAST_POLL_MS, Math.min(MOST_POLL_MS, asked)));
  }

  /** The reader of the task that this thread runs; null if that reads something else. */
  static KafkaPartitionReader ofThread() {
    return OF_THREAD.get();
  }

  /**
   * Ends the epochs here, so that the rows of a task are one iterator. For each, Spark plans the
   * iterators of all operators anew, which generates code while the next records wait.
   *
   * @param of writes all rows of a record before the task asks for another one
   */
  void endEpochsOf(DataWriter<InternalRow> of) {
    writer = of;
  }

  /**
   * The next record, in a row that is used again; null when the task shall end, and if Spark ends
   * the epochs, at the end of each. Waits for one of them.
   */
  InternalRow next() {
    inHand.release();
    while (!task.isInterrupted() && !task.isCompleted()) {
      if (epoch.isOver()) {
        if (writer == null) {
          break;
        }
        endEpoch();
      } else if (transaction != null && transaction.left() <= 0) {
        commit();
      } else if (log.hasRecord()) {
        ConsumerRecord<byte[], byte[]> record = log.take();
        if (inHand.take(record.offset())) {
          return row.of(record);
        }
      } else {
        log.poll(patience());
      }
    }
    reportOffset();
    return null;
  }

  private void reportOffset() {
    epoch.end(new KafkaSourcePartitionOffset(partition, log.next()));
  }

  private void endEpoch() {
    reportOffset();
    try {
      epoch.commit(writer.commit());
      // So the next row asks Spark's pool for a producer, which knows renewed credentials.
      writer.close();
    } catch (IOException failed) {
      throw Unchecked.<RuntimeException>rethrow(failed);
    }
  }

  /** What the records so far are written in; null if the query writes at least once. */
  @Override
  public Transaction transaction() {
    return transaction;
  }

  @Override
  public void commit() {
    try {
      transaction.commit(log.next());
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  private long committed() {
    return log.committed();
  }

  private void close() {
    OF_THREAD.remove();
    if (log != null) {
      log.close();
    }
    if (transaction != null) {
      transaction.close();
    }
  }

  private Duration patience() {
    long poll = pollTimeout.toNanos();
    long most = transaction == null ? poll : Math.min(poll, transaction.left());
    return Duration.ofNanos(epoch.patience(most));
  }
}
