package dev.penstock.spark.jdbc;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;

/**
 * Writes each batch once: the tasks stage its rows, and the driver brings them into the table in one
 * transaction with the batch's number.
 *
 * <p>A transaction for each task would not do: a batch that runs again may divide its rows in another
 * way, and two tasks may have rows of one key.
 */
record JdbcStreamWrite(Database database, Target target, StructType schema)
    implements StreamingWrite {
  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    Ledger.prepare(database, target);
    return new Factory(database, target, schema);
  }

  @Override
  public boolean useCommitCoordinator() {
    return true;
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    List<StagedRows> staged =
        Arrays.stream(messages)
            .filter(Objects::nonNull)
            .map(StagedRows.class::cast)
            .filter(it -> it.rows() > 0)
            .toList();
    if (!staged.isEmpty()) {
      Ledger.write(database, target, batch, staged);
    }
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {}

  private record Factory(Database database, Target target, StructType schema)
      implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long taskId, long batch) {
      return new StagingWriter(database, target, schema, batch);
    }
  }
}
