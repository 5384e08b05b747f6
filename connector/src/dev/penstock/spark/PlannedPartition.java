package dev.penstock.spark;

import java.time.Duration;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;

/**
 * What a task of a batch reads.
 *
 * @param length of a batch of real-time mode, at most
 * @param executor that has the clients of the batch before; null where Spark chooses one
 */
record PlannedPartition(
    KafkaBatchInputPartition spark, BatchOfRun batch, Duration length, String executor)
    implements InputPartition {
  private static final long serialVersionUID = 1;

  @Override
  public String[] preferredLocations() {
    return executor == null ? spark.preferredLocations() : new String[] {executor};
  }
}
