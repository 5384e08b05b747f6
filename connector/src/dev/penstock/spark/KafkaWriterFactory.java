package dev.penstock.spark;

import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.streaming.continuous.ContinuousExecution;
import org.apache.spark.sql.kafka010.KafkaDataWriter;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;
import org.apache.spark.sql.kafka010.producer.CachedKafkaProducer;
import org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.immutable.Seq;

/**
 * Spark's writer, one for all epochs of a task of the continuous engine.
 *
 * <p>Spark makes a new one for each epoch, which generates code, while the first records of the
 * epoch wait. A task of another engine has one epoch, and gets Spark's own, or one for transactions.
 */
final class KafkaWriterFactory extends KafkaStreamWriterFactory {
  /** Null if the query writes at least once. */
  private final TransactionOptions transactions;
  private final boolean readsOneStream;
  private final boolean writesOneByOne;
  /** Of the task: each deserializes a factory of its own. */
  private transient DataWriter<InternalRow> writer;

  KafkaWriterFactory(
      KafkaStreamWriterFactory spark,
      TransactionOptions transactions,
      boolean readsOneStream,
      boolean writesOneByOne) {
    super(spark.topic(), spark.producerParams(), spark.schema());
    this.transactions = transactions;
    this.readsOneStream = readsOneStream;
    this.writesOneByOne = writesOneByOne;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long taskId, long epoch) {
    String coordinator = ContinuousExecution.EPOCH_COORDINATOR_ID_KEY();
    if (TaskContext.get().getLocalProperty(coordinator) == null) {
      return ofBatchTask(partition, taskId, epoch);
    }
    if (writer == null) {
      writer = ofContinuousTask();
    }
    return writer;
  }

  private DataWriter<InternalRow> ofBatchTask(int partition, long taskId, long batch) {
    if (transactions == null) {
      return super.createWriter(partition, taskId, batch);
    }
    return transactions.areOfBatches()
        ? new BatchWriter(this, transactions, partition, batch)
        : TransactionalWriter.ofBatchTask(this, transactions, readsOneStream);
  }

  private DataWriter<InternalRow> ofContinuousTask() {
    DataWriter<InternalRow> made =
        transactions == null ? atLeastOnce() : TransactionalWriter.ofContinuousTask(this);
    if (writesOneByOne) {
      KafkaPartitionReader.ofThread().endEpochsOf(made);
    }
    return made;
  }

  private Writer atLeastOnce() {
    // Spark's pool closes a producer that no writer has had for ten minutes.
    InternalKafkaProducerPool$ pool = InternalKafkaProducerPool$.MODULE$;
    CachedKafkaProducer kept = pool.acquire(producerParams());
    TaskCompletionListener release = context -> pool.release(kept);
    TaskContext.get().addTaskCompletionListener(release);
    return new Writer(this);
  }

  @SuppressWarnings("unchecked") // Scala's Seq is covariant
  static Seq<Attribute> columns(StructType schema) {
    return (Seq<Attribute>) (Seq<?>) DataTypeUtils.toAttributes(schema);
  }

  private static final class Writer extends KafkaDataWriter {
    Writer(KafkaStreamWriterFactory of) {
      super(of.topic(), of.producerParams(), columns(of.schema()));
    }

    @Override
    public void write(InternalRow row) {
      try {
        super.write(row);
      } catch (InterruptException stopped) {
        throw Unchecked.interrupted();
      }
    }

    @Override
    public WriterCommitMessage commit() {
      try {
        return super.commit();
      } catch (InterruptException stopped) {
        throw Unchecked.interrupted();
      }
    }
  }
}
