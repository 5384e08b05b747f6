package dev.penstock.spark;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.SparkContext$;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.kafka010.KafkaDataWriterCommitMessage$;
import org.apache.spark.sql.kafka010.KafkaRowWriter;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;

/** Writes the rows of a task of a batch in one transaction, unless an earlier attempt has. */
final class BatchWriter extends KafkaRowWriter implements DataWriter<InternalRow> {
  private final TransactionOptions asked;
  private final int task;
  private final long number;
  private final BatchOfRun batch;
  /** Made for the first row, or left by the batch before. */
  private BatchTransaction transaction;
  /** Null if the rows are not to be written. */
  private KafkaProducer<byte[], byte[]> producer;
  /** What an earlier attempt has written; null if that is nothing. */
  private String before;
  private long rows;
  /** The same in whatever order they come. */
  private long sumOfHashes;

  BatchWriter(KafkaStreamWriterFactory of, TransactionOptions asked, int task, long number) {
    super(KafkaWriterFactory.columns(of.schema()), of.topic());
    this.asked = asked;
    this.task = task;
    this.number = number;
    TaskContext context = TaskContext.get();
    String run = context.getLocalProperty(SparkContext$.MODULE$.SPARK_JOB_GROUP_ID());
    batch = new BatchOfRun(run, number);
    if (KeptClients.take(context, id(), batch, number) instanceof BatchTransaction kept) {
      transaction = kept;
    }
  }

  private String id() {
    return asked.idOf(task);
  }

  /** Takes all rows, also those that are there: the state is stored when the last one was taken. */
  @Override
  public void write(InternalRow row) {
    try {
      if (rows == 0) {
        begin();
      }
      rows++;
      sumOfHashes += row.hashCode();
      if (producer != null) {
        checkForErrors();
        sendRow(row, producer);
      }
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  private void begin() {
    if (transaction == null) {
      transaction = new BatchTransaction(asked, task);
    }
    before = transaction.noteOf(number);
    producer = before == null ? transaction.begin() : null;
  }

  @Override
  public WriterCommitMessage commit() {
    String now = DifferentReplay.describe(rows, sumOfHashes); // Kafka keeps it beside the number
    try {
      if (producer != null) {
        checkForErrors();
        transaction.commit(number, now);
      }
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
    if (transaction != null) {
      KeptClients.keepBeside(asked.batchTasks(), id(), batch, transaction);
      transaction = null;
    }
    return before == null || before.equals(now)
        ? KafkaDataWriterCommitMessage$.MODULE$
        : new DifferentReplay(number, task, before, now);
  }

  @Override
  public void abort() {}

  @Override
  public void close() {
    if (transaction != null) {
      transaction.close();
    }
  }
}
