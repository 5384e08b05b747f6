package dev.penstock.spark;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.ContinuousPartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.ContinuousStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.kafka010.KafkaContinuousInputPartition;

/** Spark's KafkaContinuousStream, planned by {@link KafkaScanStrategy}. */
final class KafkaStream implements ContinuousStream {
  private final ContinuousStream spark;
  private final LeftOut leftOut;
  private TransactionOptions transactions;

  KafkaStream(ContinuousStream spark, LeftOut leftOut) {
    this.spark = spark;
    this.leftOut = leftOut;
  }

  /** The records that its tasks do not hand out. */
  LeftOut leftOut() {
    return leftOut;
  }

  /** What its tasks write in; null if they write at least once. */
  TransactionOptions transactions() {
    return transactions;
  }

  void writeIn(TransactionOptions asked) {
    transactions = asked;
  }

  /** Never called: the scan is no ContinuousScanExec. */
  @Override
  public ContinuousPartitionReaderFactory createContinuousReaderFactory() {
    throw new IllegalStateException("Spark has planned the scan of penstock-kafka by itself");
  }

  @Override
  public Offset initialOffset() {
    KafkaScanStrategy.install();
    return spark.initialOffset();
  }

  @Override
  public Offset deserializeOffset(String json) {
    KafkaScanStrategy.install();
    return spark.deserializeOffset(json);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] offsets) {
    return spark.mergeOffsets(offsets);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    InputPartition[] planned = spark.planInputPartitions(start);
    if (transactions != null && planned.length > 0) {
      transactions.requireClusterOf(((KafkaContinuousInputPartition) planned[0]).kafkaParams());
    }
    return planned;
  }

  @Override
  public boolean needsReconfiguration() {
    return spark.needsReconfiguration();
  }

  @Override
  public void commit(Offset end) {
    spark.commit(end);
  }

  @Override
  public void stop() {
    spark.stop();
  }

  @Override
  public String toString() {
    return spark.toString();
  }
}
