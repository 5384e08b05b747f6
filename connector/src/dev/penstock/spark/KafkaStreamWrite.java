package dev.penstock.spark;

import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.kafka010.KafkaStreamWriterFactory;
import org.apache.spark.sql.kafka010.KafkaStreamingWrite;
import org.apache.spark.sql.kafka010.KafkaWrite;

/** Spark's KafkaStreamingWrite with another writer. */
final class KafkaStreamWrite extends KafkaStreamingWrite {
  private final Transactions transactions;
  private boolean isBound;

  KafkaStreamWrite(KafkaWrite write, Transactions transactions) {
    super(write.topic(), write.producerParams(), write.schema());
    this.transactions = transactions;
  }

  /** Makes the tasks that read the stream write in transactions, if that is asked for. */
  void bind(KafkaStream stream, boolean readsAhead) {
    isBound = true;
    if (transactions != null) {
      stream.writeIn(readsAhead ? transactions.onlyAtEpochs() : transactions);
    }
  }

  @Override
  public KafkaStreamWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    if (transactions != null && !isBound) {
      throw Transactions.refusal("only a continuous query that also reads it can do that.");
    }
    return new KafkaWriterFactory(super.createStreamingWriterFactory(info), transactions != null);
  }
}
