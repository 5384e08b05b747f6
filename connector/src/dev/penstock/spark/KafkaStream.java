package dev.penstock.spark;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.ContinuousPartitionReader;
import org.apache.spark.sql.connector.read.streaming.ContinuousPartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.ContinuousStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.kafka010.KafkaContinuousInputPartition;

/** Spark's KafkaContinuousStream with another reader. */
record KafkaStream(ContinuousStream spark) implements ContinuousStream {
  @Override
  public ContinuousPartitionReaderFactory createContinuousReaderFactory() {
    return new ReaderFactory();
  }

  private record ReaderFactory() implements ContinuousPartitionReaderFactory {
    @Override
    public ContinuousPartitionReader<InternalRow> createReader(InputPartition partition) {
      return new KafkaPartitionReader((KafkaContinuousInputPartition) partition);
    }
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] offsets) {
    return spark.mergeOffsets(
        Arrays.stream(offsets)
            .map(each -> ((KafkaPosition) each).toSpark())
            .toArray(PartitionOffset[]::new));
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    return spark.planInputPartitions(start);
  }

  @Override
  public boolean needsReconfiguration() {
    return spark.needsReconfiguration();
  }

  @Override
  public Offset initialOffset() {
    return spark.initialOffset();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return spark.deserializeOffset(json);
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
