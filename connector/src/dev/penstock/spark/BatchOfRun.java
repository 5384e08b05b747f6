package dev.penstock.spark;

import java.io.Serializable;

/**
 * A batch of a run of a query.
 *
 * @param run the same for all batches since the query was started
 * @param number one more than that of the batch before
 */
public record BatchOfRun(String run, long number) implements Serializable {
  private static final long serialVersionUID = 1;

  /** Whether it is this other one, or an earlier batch of the same run. */
  boolean isUntil(BatchOfRun other) {
    return run.equals(other.run) && number <= other.number;
  }

  boolean follows(BatchOfRun other) {
    return run.equals(other.run) && number == other.number + 1;
  }
}
