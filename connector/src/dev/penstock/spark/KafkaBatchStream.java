package dev.penstock.spark;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
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
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaSourcePartitionOffset;

/** Spark's KafkaMicroBatchStream, of the batch engines, with {@link KafkaBatchReader}. */
final class KafkaBatchStream
    implements MicroBatchStream,
        ReportsSourceMetrics,
        SupportsRealTimeMode,
        SupportsTriggerAvailableNow {
  /**
   * How long a batch of real-time mode takes that reads a backlog: a failure writes no more of it
   * again.
   */
  static final Duration CATCH_UP = Duration.ofSeconds(1);

  private static final Duration UNTIL_THE_END = Duration.ofDays(1);

  private final KafkaMicroBatchStream spark;
  private final LeftOut leftOut;
  private final boolean mayDivide;
  private final BatchEnds ends;
  private final String run = UUID.randomUUID().toString();
  private PlannedPartition[] planned = {};
  private boolean isRealTime;
  private long batches;
  /** Whether the query has more to read than it can, as after a start. */
  private boolean isBehind = true;

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
  PlannedPartition[] planned() {
    return planned;
  }

  /** Whether its batches are those of real-time mode, which end by the clock. */
  boolean isRealTime() {
    return isRealTime;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ReaderFactory(leftOut);
  }

  private record ReaderFactory(LeftOut leftOut) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition input) {
      return new KafkaBatchReader((PlannedPartition) input, leftOut, TaskContext.get());
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
    return plan(spark.planInputPartitions(ends.asRead(start), ends.asRead(end)));
  }

  /** For a batch of real-time mode. */
  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    return plan(spark.planInputPartitions(start));
  }

  private InputPartition[] plan(InputPartition[] asked) {
    var batch = new BatchOfRun(run, ++batches);
    if (isRealTime) {
      RealTimeBatches.begin(batch);
    }
    Duration length = isBehind ? CATCH_UP : UNTIL_THE_END;
    planned =
        Arrays.stream(asked)
            .map(input -> new PlannedPartition((KafkaBatchInputPartition) input, batch, length))
            .toArray(PlannedPartition[]::new);
    return planned;
  }

  @Override
  public void prepareForRealTimeMode() {
    isRealTime = true;
    spark.prepareForRealTimeMode();
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] offsets) {
    List<KafkaBatchReader.End> reached =
        Arrays.stream(offsets).map(KafkaBatchReader.End.class::cast).toList();
    isBehind = reached.stream().anyMatch(KafkaBatchReader.End::isBehind);
    return spark.mergeOffsets(
        reached.stream()
            .map(end -> new KafkaSourcePartitionOffset(end.partition(), end.offset()))
            .toArray(PartitionOffset[]::new));
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
