package dev.penstock.spark;

import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;
import org.apache.spark.executor.InputMetrics;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;

/**
 * The record that a reader has handed out, while its task has not asked for another one.
 *
 * <p>If the task fails meanwhile, its exception gets the position, as a {@link FailedRecord}.
 */
public final class RecordInHand {
  private static final long NONE = -1;
  /** Of the task that this thread runs. */
  private static final ThreadLocal<RecordInHand> NEWEST = new ThreadLocal<>();

  private final TopicPartition partition;

  private final Set<Long> leftOut;
  /** Else no offset becomes an object, to be looked up. */
  private final boolean leavesSomeOut;
  private final InputMetrics metrics;
  private long offset = NONE;
  /** The one after the last offset that Spark's metrics have as read. */
  private long next;

  RecordInHand(TopicPartition partition, long start, LeftOut leftOut, TaskContext task) {
    next = start;
    metrics = task.taskMetrics().inputMetrics();
    this.partition = partition;
    this.leftOut = leftOut.in(partition);
    leavesSomeOut = !this.leftOut.isEmpty();
    TaskFailureListener named =
        (failed, failure) -> {
          if (offset != NONE && !FailedRecord.isKnownTo(failure)) {
            failure.addSuppressed(new FailedRecord(partition, offset));
          }
        };
    task.addTaskFailureListener(named);
    NEWEST.set(this);
    TaskCompletionListener ended = context -> NEWEST.remove();
    task.addTaskCompletionListener(ended);
  }

  /** Of what this thread's task reads now; null if it reads no records. */
  public static RecordInHand ofThread() {
    return NEWEST.get();
  }

  public TopicPartition partition() {
    return partition;
  }

  /** -1 between two records. */
  public long offset() {
    return offset;
  }

  /** The task is done with it, and asks for another one. */
  void release() {
    offset = NONE;
  }

  /**
   * Counts as read what lies before it and no record has, such as the end of a transaction, and what
   * is left out. Spark counts the record itself.
   */
  void countSkipped() {
    if (offset > next) {
      metrics.incRecordsRead(offset - next);
    }
    next = offset + 1;
  }

  /** Whether the record is to be handed out: then the task has it in hand. */
  boolean take(long offset) {
    if (leavesSomeOut && leftOut.contains(offset)) {
      return false;
    }
    this.offset = offset;
    return true;
  }
}
