package dev.penstock.spark;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.kafka010.KafkaDataWriterCommitMessage$;
import org.apache.spark.sql.kafka010.KafkaRowWriter;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;
import org.apache.spark.util.TaskCompletionListener;

/** Writes the rows of a task into the transaction of its reader. */
final class TransactionalWriter extends KafkaRowWriter implements DataWriter<InternalRow> {
  /** What reads one partition of the source for a task that writes in transactions. */
  interface Reader {
    Transaction transaction();

    /** Commits what was written of the records so far: of all of them, or a restart loses some. */
    void commit();
  }

  /** Of the batch engines, by the task's attempt: Python's rows may come in another thread. */
  private static final Map<Long, TransactionalWriter> OF_TASKS = new ConcurrentHashMap<>();

  private final TransactionOptions asked;
  private final boolean readsOneStream;
  private Reader reader;

  private TransactionalWriter(
      KafkaStreamWriterFactory of, TransactionOptions asked, boolean readsOneStream, Reader reader) {
    super(KafkaWriterFactory.columns(of.schema()), of.topic());
    this.asked = asked;
    this.readsOneStream = readsOneStream;
    this.reader = reader;
  }

  /** For a task of the continuous engine, whose reader is there. */
  static TransactionalWriter ofContinuousTask(KafkaStreamWriterFactory of) {
    return new TransactionalWriter(of, null, true, KafkaPartitionReader.ofThread());
  }

  /** For a task of a batch, which makes its reader later. */
  static TransactionalWriter ofBatchTask(
      KafkaStreamWriterFactory of, TransactionOptions asked, boolean readsOneStream) {
    TaskContext task = TaskContext.get();
    TransactionalWriter writer = new TransactionalWriter(of, asked, readsOneStream, null);
    OF_TASKS.put(task.taskAttemptId(), writer);
    TaskCompletionListener forget = ended -> OF_TASKS.remove(ended.taskAttemptId());
    task.addTaskCompletionListener(forget);
    return writer;
  }

  /** The writer of the batch task that this thread runs; null if it writes in no transaction. */
  static TransactionalWriter ofTask(TaskContext task) {
    return OF_TASKS.get(task.taskAttemptId());
  }

  /** What the task writes in; refused if two tasks may read the same partition. */
  TransactionOptions asked() {
    if (!readsOneStream) {
      throw TransactionOptions.refusal("a query has to read one stream, once.");
    }
    return asked;
  }

  /** Makes the rows part of the transactions of this reader. */
  void readBy(Reader of) {
    if (reader != null) {
      throw TransactionOptions.refusal("a task may read one partition only, so without coalesce.");
    }
    reader = of;
  }

  @Override
  public void write(InternalRow row) {
    if (reader == null) {
      throw TransactionOptions.refusal(
          "a task has to write what it has read itself from Kafka, so without an aggregate, a "
              + "sort, a repartition, and without a join that shuffles.");
    }
    try {
      checkForErrors();
      sendRow(row, reader.transaction().producer());
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  /** At the end of an epoch or a batch. */
  @Override
  public WriterCommitMessage commit() {
    if (reader != null) {
      reader.commit();
    }
    return KafkaDataWriterCommitMessage$.MODULE$;
  }

  @Override
  public void abort() {}

  @Override
  public void close() {}
}
