package dev.penstock.spark;

import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;

/** Spark's KafkaMicroBatchStream, of the batch engines, with {@link KafkaBatchReader}. */
final class KafkaBatchStream
    implements MicroBatchStream,
        ReportsSourceMetrics,
        SupportsRealTimeMode,
        SupportsTriggerAvailableNow {
  private final KafkaMicroBatchStream spark;
  private final LeftOut leftOut;
  private final boolean mayDivide;
  private final BatchEnds ends;
  private InputPartition[] planned = {};

  KafkaBatchStream(
      KafkaMicroBatchStream spark, LeftOut leftOut, boolean mayDivide, BatchEnds ends) {
    this.spark = spark;
    this.leftOut = leftOut;
    this.mayDivide = mayDivide;
    this.ends = ends;
  }

  /** Whether several tasks of a batch may read one partition. */
  boolean mayDivide() {
    return mayDivide;
  }

  /** What the tasks of the batch read that was planned last. */
  InputPartition[] planned() {
    return planned;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ReaderFactory(spark.createReaderFactory(), leftOut);
  }

  private record ReaderFactory(PartitionReaderFactory spark, LeftOut leftOut)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition input) {
      TaskContext task = TaskContext.get();
      var asked = (KafkaBatchInputPartition) input;
      TransactionalWriter writer = TransactionalWriter.ofTask(task);
      if (writer != null) {
        asked = BatchTransaction.begin(writer, asked, task);
      }
      TopicPartition partition = asked.offsetRange().topicPartition();
      long start = asked.offsetRange().fromOffset();
      var reader = (SupportsRealTimeRead<InternalRow>) spark.createReader(asked);
      return new KafkaBatchReader(
          reader, new RecordInHand(partition, start, leftOut, task), writer != null);
    }
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
  public ReadLimit getDefaultReadLimit() {
    return spark.getDefaultReadLimit();
  }

  @Override
  public Offset latestOffset() {
    return spark.latestOffset();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    KafkaScanStrategy.install();
    return ends.notBefore(start, spark.latestOffset(start, limit));
  }

  @Override
  public Offset reportLatestOffset() {
    return spark.reportLatestOffset();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    planned = spark.planInputPartitions(ends.asRead(start), ends.asRead(end));
    return planned;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    return spark.planInputPartitions(start);
  }

  @Override
  public void prepareForRealTimeMode() {
    spark.prepareForRealTimeMode();
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] offsets) {
    return spark.mergeOffsets(offsets);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    spark.prepareForTriggerAvailableNow();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    return spark.metrics(latestConsumedOffset);
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
