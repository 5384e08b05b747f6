package dev.penstock.spark;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;
import org.apache.spark.sql.kafka010.KafkaStreamingWrite;
import org.apache.spark.sql.kafka010.KafkaWrite;

/** Spark's KafkaStreamingWrite with another writer. */
final class KafkaStreamWrite extends KafkaStreamingWrite {
  private TransactionOptions transactions;
  /** Whether a task of the continuous engine writes a record before it reads the next one. */
  private boolean writesOneByOne;
  /** Null for a batch without new records, whose scan Spark leaves out. */
  private KafkaBatchStream batch;

  KafkaStreamWrite(KafkaWrite write, TransactionOptions transactions) {
    super(write.topic(), write.producerParams(), write.schema());
    this.transactions = transactions;
  }

  /** Makes the tasks that read a continuous stream write in transactions, if that is asked for. */
  void bind(KafkaStream stream, boolean readsAhead) {
    writesOneByOne = !readsAhead;
    if (transactions != null) {
      stream.writeIn(readsAhead ? transactions.onlyAtEpochs() : transactions);
    }
  }

  /** Makes the tasks of a batch that read the stream write in transactions, if that is asked for. */
  void bind(KafkaBatchStream stream, boolean readsAhead) {
    batch = stream;
    if (transactions == null || transactions.areOfBatches()) {
      return;
    }
    if (stream.mayDivide() && !stream.isRealTime()) {
      throw TransactionOptions.refusal(
          "several tasks would read one partition: remove minPartitions and "
              + "maxRecordsPerPartition.");
    }
    if (readsAhead || !stream.isRealTime()) {
      transactions = transactions.onlyAtEpochs();
    }
  }

  @Override
  public KafkaStreamWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    if (transactions != null && transactions.areOfBatches()) {
      transactions.requireTasks(info.numPartitions());
    } else if (transactions != null && batch != null) {
      checkTasks(info.numPartitions());
      if (batch.isRealTime()) {
        checkOperators();
      }
    }
    var spark = super.createStreamingWriterFactory(info);
    return new KafkaWriterFactory(spark, transactions, batch != null, writesOneByOne);
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    for (WriterCommitMessage message : messages) {
      if (message instanceof DifferentReplay found) {
        found.note();
      }
    }
    super.commit(epoch, messages);
  }

  /**
   * Spark's own check of the operators, which is turned off: it would refuse this sink, of which it
   * knows nothing.
   */
  private static void checkOperators() {
    SparkContext context = SparkContext.getOrCreate();
    String id = context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    SparkPlan plan = SQLExecution.getQueryExecution(Long.parseLong(id)).executedPlan();
    RealTimeModeAllowlist.checkAllowedPhysicalOperator(plan, true);
  }

  /** Two tasks of one partition would share its transactional id, and one skip what it reads. */
  private void checkTasks(int tasks) {
    PlannedPartition[] planned = batch.planned();
    if (tasks > Math.max(planned.length, 1)) {
      throw TransactionOptions.refusal(
          "a task has to write what it has read itself, and more tasks write than partitions are "
              + "read, as after a repartition and in a join without an equality.");
    }
    batch.requireClusterOf(transactions);
  }
}
