package dev.penstock.spark;

import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.kafka010.KafkaSourcePartitionOffset;

/**
 * The offset that a partition is read on from after a record.
 *
 * <p>Spark takes it together with the record. It moves on while no other record follows: a
 * transaction's marker, or aborted records, are then behind it too. So a topic that was read to its
 * end has no lag.
 */
final class KafkaPosition implements PartitionOffset {
  private static final long serialVersionUID = 1;

  private final TopicPartition partition;
  private volatile long offset;

  KafkaPosition(TopicPartition partition, long offset) {
    this.partition = partition;
    this.offset = offset;
  }

  long offset() {
    return offset;
  }

  /** Only over offsets without a record. */
  void moveTo(long later) {
    offset = later;
  }

  KafkaSourcePartitionOffset toSpark() {
    return new KafkaSourcePartitionOffset(partition, offset);
  }
}
