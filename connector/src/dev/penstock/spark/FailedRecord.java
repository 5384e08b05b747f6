package dev.penstock.spark;

import org.apache.kafka.common.TopicPartition;

/**
 * Where the record is that a task had in hand when it failed.
 *
 * <p>A reader adds it to the task's exception as a suppressed one, so it reaches the driver with
 * the exception, and changes neither its class nor its causes.
 */
public final class FailedRecord extends Exception {
  private static final long serialVersionUID = 1;

  private final TopicPartition partition;
  private final long offset;

  public FailedRecord(TopicPartition partition, long offset) {
    super(partition.topic() + "/" + partition.partition() + "@" + offset, null, false, false);
    this.partition = partition;
    this.offset = offset;
  }

  /** An exception of a writer that has many rows in hand, and knows itself which one it is. */
  public interface Knowing {}

  /** Whether it, or a cause of it, knows whose fault it is. */
  static boolean isKnownTo(Throwable failure) {
    for (Throwable each = failure; each != null; each = each.getCause()) {
      if (each instanceof Knowing) {
        return true;
      }
    }
    return false;
  }

  public String topic() {
    return partition.topic();
  }

  public int partition() {
    return partition.partition();
  }

  public long offset() {
    return offset;
  }
}
