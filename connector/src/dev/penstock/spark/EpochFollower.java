package dev.penstock.spark;

import java.time.Duration;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.errors.QueryExecutionErrors;
import org.apache.spark.sql.execution.streaming.continuous.CommitPartitionEpoch;
import org.apache.spark.sql.execution.streaming.continuous.ContinuousExecution;
import org.apache.spark.sql.execution.streaming.continuous.EpochCoordinatorRef;
import org.apache.spark.sql.execution.streaming.continuous.EpochTracker;
import org.apache.spark.sql.execution.streaming.continuous.GetCurrentEpoch$;
import org.apache.spark.sql.execution.streaming.continuous.ReportPartitionOffset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.concurrent.Future;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Tells a task when its epoch is over, without a thread: it asks the driver, and looks for the
 * answer between two records.
 */
final class EpochFollower {
  private static final Logger LOG = LoggerFactory.getLogger(EpochFollower.class);
  private static final long ANSWERED_NANOS = Duration.ofMillis(5).toNanos();
  // At a stop the coordinator ends before the tasks are interrupted.
  private static final long UNANSWERED_NANOS = Duration.ofSeconds(10).toNanos();

  @SuppressWarnings("unchecked") // Scala's Long is an Object here
  private static final ClassTag<Long> LONG = (ClassTag<Long>) (ClassTag<?>) ClassTag$.MODULE$.Long();

  private final int partition;
  private final RpcEndpointRef coordinator;
  private final long intervalNanos;
  /** The epoch that is read; Spark's EpochTracker has the one that is written. */
  private long epoch;
  private long driversEpoch;
  private Future<Long> answer;
  private long askedAt;
  private long answeredAt = System.nanoTime();

  EpochFollower(TaskContext task, long intervalMs) {
    this(
        task.partitionId(),
        Long.parseLong(task.getLocalProperty(ContinuousExecution.START_EPOCH_KEY())),
        coordinator(task.getLocalProperty(ContinuousExecution.EPOCH_COORDINATOR_ID_KEY())),
        intervalMs);
  }

  EpochFollower(int partition, long firstEpoch, RpcEndpointRef coordinator, long intervalMs) {
    this.partition = partition;
    this.coordinator = coordinator;
    intervalNanos = Duration.ofMillis(intervalMs).toNanos();
    epoch = firstEpoch;
    driversEpoch = firstEpoch;
    ask();
  }

  /** The query's coordinator, from the driver or from an executor. */
  static RpcEndpointRef coordinator(String id) {
    return EpochCoordinatorRef.get(id, SparkEnv.get());
  }

  /** Whether the driver has begun a later epoch. Throws if it no longer answers. */
  boolean isOver() {
    if (answer != null && answer.isCompleted()) {
      takeAnswer();
    }
    if (answer == null && System.nanoTime() - askedAt >= intervalNanos) {
      ask();
    }
    return epoch < driversEpoch;
  }

  /**
   * For how many nanoseconds the task may wait for a record before it looks again: at most as many
   * as given, of which none may be left by now.
   */
  long patience(long most) {
    long left = answer == null ? intervalNanos - (System.nanoTime() - askedAt) : ANSWERED_NANOS;
    return Math.max(Math.min(left, most), 0);
  }

  /** Ends the epoch with the offset that its records reach to. */
  void end(PartitionOffset offset) {
    coordinator.send(new ReportPartitionOffset(partition, written(), offset));
    epoch++;
  }

  /** Says that all of the epoch's records are written, as Spark's ContinuousWriteRDD does. */
  void commit(WriterCommitMessage message) {
    coordinator.send(new CommitPartitionEpoch(partition, written(), message));
    LOG.info("Epoch {} of partition {} is written.", written(), partition);
    EpochTracker.incrementCurrentEpoch();
  }

  private static long written() {
    return (Long) EpochTracker.getCurrentEpoch().get();
  }

  private void ask() {
    answer = coordinator.ask(GetCurrentEpoch$.MODULE$, LONG);
    askedAt = System.nanoTime();
  }

  private void takeAnswer() {
    var taken = answer.value().get();
    answer = null;
    if (taken.isSuccess()) {
      driversEpoch = taken.get();
      answeredAt = System.nanoTime();
    } else if (System.nanoTime() - answeredAt > UNANSWERED_NANOS) {
      throw Unchecked.<RuntimeException>rethrow(
          QueryExecutionErrors.failedToGenerateEpochMarkerError(taken.failed().get()));
    }
  }
}
