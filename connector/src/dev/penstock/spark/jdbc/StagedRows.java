package dev.penstock.spark.jdbc;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What a task has staged of a batch.
 *
 * @param task the attempt, by which its rows are found
 * @param rows how many they are
 * @param sumOfHashes the same in whatever order and task they come
 */
record StagedRows(long task, long rows, long sumOfHashes) implements WriterCommitMessage {
  private static final long serialVersionUID = 1;
}
