package dev.penstock.spark;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;
import org.apache.spark.sql.kafka010.KafkaStreamingWrite;
import org.apache.spark.sql.kafka010.KafkaWrite;

/** Spark's KafkaStreamingWrite with another writer. */
final class KafkaStreamWrite extends KafkaStreamingWrite {
  private final TransactionOptions transactions;
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
  void bind(KafkaBatchStream stream) {
    if (transactions != null && stream.mayDivide()) {
      throw TransactionOptions.refusal(
          "several tasks would read one partition: remove minPartitions and "
              + "maxRecordsPerPartition.");
    }
    batch = stream;
  }

  @Override
  public KafkaStreamWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    if (transactions != null && batch != null) {
      checkTasks(info.numPartitions());
    }
    var spark = super.createStreamingWriterFactory(info);
    return new KafkaWriterFactory(spark, transactions, batch != null, writesOneByOne);
  }

  /** Two tasks of one partition would share its transactional id, and one skip what it reads. */
  private void checkTasks(int tasks) {
    InputPartition[] planned = batch.planned();
    if (tasks > Math.max(planned.length, 1)) {
      throw TransactionOptions.refusal(
          "a task has to write what it has read itself, and more tasks write than partitions are "
              + "read, as after a repartition and in a join without an equality.");
    }
    if (planned.length > 0) {
      transactions.requireClusterOf(((KafkaBatchInputPartition) planned[0]).executorKafkaParams());
    }
  }
}
