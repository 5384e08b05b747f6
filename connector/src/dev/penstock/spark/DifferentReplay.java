package dev.penstock.spark;

import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Rows that a batch has made which ran again, and which were others before: those before are in the
 * sink, and the state may be that of the others.
 *
 * @param batch its number
 * @param task the one whose rows they are, which is the partition of the state behind them; -1:
 *     all tasks
 * @param before what is in the sink
 * @param now what it would have been
 */
public record DifferentReplay(long batch, int task, String before, String now)
    implements WriterCommitMessage {
  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(DifferentReplay.class);
  private static volatile DifferentReplay newest;

  /** How rows are told, and kept beside the number of their batch. */
  public static String describe(long rows, long sumOfHashes) {
    return rows + " rows with hash " + Long.toHexString(sumOfHashes);
  }

  /** In the driver: the newest one since the last call; null if there is none. */
  public static DifferentReplay take() {
    DifferentReplay found = newest;
    newest = null;
    return found;
  }

  public void note() {
    LOG.info("A batch that ran again has made other rows: {}", this);
    newest = this;
  }
}
