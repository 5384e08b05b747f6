package dev.penstock.spark.jdbc;

import dev.penstock.spark.BatchOfRun;
import dev.penstock.spark.RecordInHand;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import org.apache.spark.SparkContext$;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;

/** Copies the rows of a task into the staging table. Whether they count, the driver decides. */
final class StagingWriter implements DataWriter<InternalRow> {
  private static final int FLUSHED_BYTES = 1 << 16;
  private static final int SEED = 42;
  private static final String NO_TABLE = "42P01";
  /** The record of each is remembered until then. */
  private static final int LINES_OF_COPY = 100_000;

  private final Target target;
  private final StructType schema;
  private final int[] places;
  private final int deletedAt;
  private final int latestAt;
  private final Session.Slot slot;
  private final BatchOfRun batch;
  private final long task;
  private final ByteArrayOutputStream buffer = new ByteArrayOutputStream(FLUSHED_BYTES * 2);
  private final ByteArrayOutputStream line = new ByteArrayOutputStream();
  private final ReadRecords read = new ReadRecords();
  /** Null before the first row. */
  private Session session;

  private CopyIn copy;
  private long rows;
  private long sumOfHashes;

  StagingWriter(Database database, Target target, StructType schema, long number) {
    this.target = target;
    this.schema = schema;
    places = target.columns().stream().mapToInt(it -> schema.fieldIndex(it.name())).toArray();
    deletedAt = target.deleted() == null ? -1 : schema.fieldIndex(target.deleted());
    latestAt = target.latest() == null ? -1 : schema.fieldIndex(target.latest().name());
    TaskContext context = TaskContext.get();
    task = context.taskAttemptId();
    slot = Session.Slot.take(database);
    String run = context.getLocalProperty(SparkContext$.MODULE$.SPARK_JOB_GROUP_ID());
    batch = new BatchOfRun(run, number);
  }

  @Override
  public void write(InternalRow row) {
    try {
      if (copy == null) {
        begin();
      } else if (read.lines() == LINES_OF_COPY) {
        end();
        begin();
      }
      read.add(RecordInHand.ofThread());
      rows++;
      buffer.writeBytes((task + "\t" + rows + "\t").getBytes(StandardCharsets.US_ASCII));
      add(row);
      if (buffer.size() > FLUSHED_BYTES) {
        flush();
      }
    } catch (SQLException refused) {
      throw refusal(refused);
    }
  }

  /** The next run drops the table that the rows of this one are copied to. */
  private RuntimeException refusal(SQLException refused) {
    boolean isDropped = !isCopying() && NO_TABLE.equals(refused.getSQLState());
    return isDropped ? new FencedException() : DatabaseException.of(refused, read);
  }

  private boolean isCopying() {
    return copy != null && copy.isActive();
  }

  private void begin() throws SQLException {
    if (session == null) {
      session = Session.in(slot, batch);
    }
    read.clear();
    copy = session.connection().unwrap(PGConnection.class).getCopyAPI().copyIn(target.copy());
  }

  private void add(InternalRow row) {
    line.reset();
    if (deletedAt >= 0) {
      boolean isDeleted = !row.isNullAt(deletedAt) && row.getBoolean(deletedAt);
      line.writeBytes(new byte[] {(byte) (isDeleted ? 't' : 'f'), '\t'});
    }
    if (latestAt >= 0) {
      addColumn(row, latestAt);
      line.write('\t');
    }
    for (int i = 0; i < places.length; i++) {
      if (i > 0) {
        line.write('\t');
      }
      addColumn(row, places[i]);
    }
    byte[] bytes = line.toByteArray();
    sumOfHashes +=
        XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, SEED);
    buffer.writeBytes(bytes);
    buffer.write('\n');
  }

  private void addColumn(InternalRow row, int at) {
    CopyText.add(line, row, at, schema.apply(at).dataType());
  }

  private void flush() throws SQLException {
    copy.writeToCopy(buffer.toByteArray(), 0, buffer.size());
    buffer.reset();
  }

  private void end() throws SQLException {
    flush();
    copy.endCopy();
  }

  @Override
  public WriterCommitMessage commit() {
    if (copy != null) {
      try {
        end();
      } catch (SQLException refused) {
        throw refusal(refused);
      }
      session.leaveIn(slot, batch);
      session = null;
    }
    return new StagedRows(task, rows, sumOfHashes);
  }

  @Override
  public void abort() {}

  /** The server gives up a copy whose session ends. */
  @Override
  public void close() {
    if (session != null) {
      session.close();
    }
    slot.release();
  }
}
