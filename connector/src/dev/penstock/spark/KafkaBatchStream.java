package dev.penstock.spark;

import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
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

  static final Duration UNTIL_THE_END = Duration.ofDays(1);

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
  /** Of real-time mode: where each partition's clients are. */
  private final Map<TopicPartition, String> executors = new HashMap<>();
  private Duration length = CATCH_UP;
  private long plannedAtNanos;
  private boolean isInClusterOfSink;

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
    length = isBehind ? catchUp() : UNTIL_THE_END;
    plannedAtNanos = System.nanoTime();
    planned =
        Arrays.stream(asked)
            .map(input -> planned((KafkaBatchInputPartition) input, batch))
            .toArray(PlannedPartition[]::new);
    return planned;
  }

  private PlannedPartition planned(KafkaBatchInputPartition input, BatchOfRun batch) {
    String executor = executors.get(input.offsetRange().topicPartition());
    return new PlannedPartition(input, batch, length, executor);
  }

  /**
   * Longer where the end of a batch takes long, as with much state: else it never caught up. The end
   * of the first batch of a run tells nothing, because its code runs for the first time.
   */
  private Duration catchUp() {
    if (batches <= 2 || length.equals(UNTIL_THE_END)) {
      return CATCH_UP;
    }
    Duration end = Duration.ofNanos(System.nanoTime() - plannedAtNanos).minus(length);
    Duration asked = end.multipliedBy(4);
    return asked.compareTo(CATCH_UP) > 0 ? asked : CATCH_UP;
  }

  /** Refuses a source in another cluster than the sink's, before the first batch. */
  void requireClusterOf(TransactionOptions sink) {
    if (!isInClusterOfSink && planned.length > 0) {
      sink.requireClusterOf(planned[0].spark().executorKafkaParams());
      isInClusterOfSink = true;
    }
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
    reached.forEach(end -> executors.put(end.partition(), end.executor()));
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
