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

  private final TopicPartition partition;
  private final TaskContext task;
  private final EpochFollower epoch;
  private final PartitionClients clients;
  private final PartitionLog log;
  private final RecordInHand inHand;
  private final RecordRow row;
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
    row = new RecordRow(partition.topic(), input.includeHeaders());
    clients =
        PartitionClients.open(
            partition,
            input.startOffset(),
            input.failOnDataLoss(),
            input.pollTimeoutMs(),
            input.kafkaParams(),
            transactions);
    log = clients.log();
    TaskCompletionListener close = ended -> close();
    task.addTaskCompletionListener(close);
    epoch = new EpochFollower(task, epochPollMs);
    inHand = new RecordInHand(partition, input.startOffset(), leftOut, task);
    OF_THREAD.set(this);
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
      clients.commitIfDue();
      if (epoch.isOver()) {
        if (writer == null) {
          break;
        }
        endEpoch();
      } else if (log.hasRecord()) {
        ConsumerRecord<byte[], byte[]> record = log.take();
        if (inHand.take(record.offset())) {
          return row.of(record);
        }
      } else {
        log.poll(Duration.ofNanos(epoch.patience(clients.patience())));
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

  @Override
  public Transaction transaction() {
    return clients.transaction();
  }

  @Override
  public void commit() {
    clients.commit();
  }

  private void close() {
    OF_THREAD.remove();
    clients.close();
  }
}
