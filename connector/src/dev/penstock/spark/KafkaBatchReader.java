package dev.penstock.spark;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;

/**
 * Spark's reader of the batch engines, with the record that it has handed out.
 *
 * @param inTransaction whether what becomes of the records is committed at the batch's end
 */
record KafkaBatchReader(
    SupportsRealTimeRead<InternalRow> spark, RecordInHand inHand, boolean inTransaction)
    implements SupportsRealTimeRead<InternalRow> {
  private static final int OFFSET = 4;

  @Override
  public boolean next() throws IOException {
    inHand.release();
    while (spark.next()) {
      if (inHand.take(get().getLong(OFFSET))) {
        return true;
      }
    }
    return false;
  }

  @Override
  public RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) throws IOException {
    if (inTransaction) {
      throw TransactionOptions.refusal("a batch in real-time mode is too long for one transaction.");
    }
    inHand.release();
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    RecordStatus status = spark.nextWithTimeout(startMs, timeoutMs);
    while (status.hasRecord() && !inHand.take(get().getLong(OFFSET))) {
      long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
      status = spark.nextWithTimeout(startMs, Math.max(left, 0));
    }
    if (status.hasRecord()) {
      inHand.countSkipped();
    }
    return status;
  }

  @Override
  public InternalRow get() {
    return spark.get();
  }

  @Override
  public PartitionOffset getOffset() {
    return spark.getOffset();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return spark.currentMetricsValues();
  }

  @Override
  public void close() throws IOException {
    spark.close();
  }
}
