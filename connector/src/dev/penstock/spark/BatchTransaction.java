package dev.penstock.spark;

import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The transaction of a task of a batch: what it writes of its range, and the end of that range.
 *
 * <p>A batch runs again if it was interrupted, perhaps with another range. The task then reads what
 * is left of its range after the offset that the group has committed.
 */
record BatchTransaction(Transaction transaction, long end) implements TransactionalWriter.Reader {
  /** The part of the range that no transaction has committed; the writer is given the next one. */
  static KafkaBatchInputPartition begin(
      TransactionalWriter writer, KafkaBatchInputPartition input, TaskContext task) {
    KafkaOffsetRange range = input.offsetRange();
    TopicPartition partition = range.topicPartition();
    TransactionOptions asked = writer.asked();
    Map<String, Object> consumer = asked.consumer(input.executorKafkaParams());
    try {
      // In this order: nobody else can commit the partition's offset any more when it is read.
      Transaction transaction =
          new Transaction(asked, partition, () -> committed(partition, consumer));
      TaskCompletionListener close = ended -> transaction.close();
      task.addTaskCompletionListener(close);
      writer.readBy(new BatchTransaction(transaction, range.untilOffset()));
      long start = Math.max(range.fromOffset(), transaction.findCommitted());
      return new KafkaBatchInputPartition(
          new KafkaOffsetRange(
              partition,
              Math.min(start, range.untilOffset()),
              range.untilOffset(),
              range.preferredLoc()),
          input.executorKafkaParams(),
          input.pollTimeoutMs(),
          input.failOnDataLoss(),
          input.includeHeaders());
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  private static long committed(TopicPartition partition, Map<String, Object> parameters) {
    try (Consumer<byte[], byte[]> consumer =
        new RenewedConsumers(new ClientParameters(parameters)).make()) {
      return PartitionLog.committed(consumer, partition);
    }
  }

  @Override
  public void commit() {
    try {
      transaction.commit(end);
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }
}
