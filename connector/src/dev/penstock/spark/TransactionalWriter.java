package dev.penstock.spark;

import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.kafka010.KafkaDataWriterCommitMessage$;
import org.apache.spark.sql.kafka010.KafkaRowWriter;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;

/** Writes the rows of a task into the transaction of its reader. */
final class TransactionalWriter extends KafkaRowWriter implements DataWriter<InternalRow> {
  private final KafkaPartitionReader reader;

  TransactionalWriter(KafkaStreamWriterFactory of, KafkaPartitionReader reader) {
    super(KafkaWriterFactory.columns(of.schema()), of.topic());
    this.reader = reader;
  }

  @Override
  public void write(InternalRow row) {
    try {
      checkForErrors();
      sendRow(row, reader.transaction().producer());
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  /** At the end of an epoch. */
  @Override
  public WriterCommitMessage commit() {
    reader.commit();
    return KafkaDataWriterCommitMessage$.MODULE$;
  }

  @Override
  public void abort() {}

  @Override
  public void close() {}
}
