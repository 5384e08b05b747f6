package dev.penstock.spark;

import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;
import org.apache.spark.sql.kafka010.KafkaStreamingWrite;
import org.apache.spark.sql.kafka010.KafkaWrite;

/** Spark's KafkaStreamingWrite with another writer. */
final class KafkaStreamWrite extends KafkaStreamingWrite {
  private final Transactions transactions;
  /** Not for a batch without new records: Spark leaves its scan out. */
  private boolean isBound;

  KafkaStreamWrite(KafkaWrite write, Transactions transactions) {
    super(write.topic(), write.producerParams(), write.schema());
    this.transactions = transactions;
  }

  /** Makes the tasks that read a continuous stream write in transactions, if that is asked for. */
  void bind(KafkaStream stream, boolean readsAhead) {
    isBound = true;
    if (transactions != null) {
      stream.writeIn(readsAhead ? transactions.onlyAtEpochs() : transactions);
    }
  }

  /** Makes the tasks of a batch that read the stream write in transactions, if that is asked for. */
  void bind(KafkaBatchStream stream) {
    if (transactions != null && stream.mayDivide()) {
      throw Transactions.refusal(
          "several tasks would read one partition: remove minPartitions and "
              + "maxRecordsPerPartition.");
    }
    isBound = true;
  }

  @Override
  public KafkaStreamWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    var spark = super.createStreamingWriterFactory(info);
    return new KafkaWriterFactory(spark, transactions, isBound);
  }
}
