package dev.penstock.spark;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * The records that a task has written since its last commit, and the offset of its partition that
 * they reach to: Kafka keeps both or none.
 *
 * <p>Its transactional id is that of the partition.
 */
final class Transaction {
  private final TopicPartition source;
  private final ConsumerGroupMetadata group;
  private final long intervalNanos;
  private final TransactionalProducer producer;
  /** For the offset that the group has committed. */
  private LongSupplier askGroup;
  private boolean isOpen;
  private long openedAt;
  /** The offset that the group has, unless somebody else has written the partition since. */
  private long committed;

  Transaction(TransactionOptions asked, TopicPartition source) {
    this.source = source;
    group = new ConsumerGroupMetadata(asked.group());
    intervalNanos = TimeUnit.MILLISECONDS.toNanos(asked.intervalMs());
    producer = new TransactionalProducer(asked.producerFor(asked.idOf(source)));
  }

  /** The offset that earlier owners of the id have committed: the records before it are written. */
  long findCommitted(LongSupplier askGroup) {
    this.askGroup = askGroup;
    committed = askGroup.getAsLong();
    return committed;
  }

  /** The producer for the next record. */
  KafkaProducer<byte[], byte[]> producer() {
    if (!isOpen) {
      if (producer.renew() && askGroup.getAsLong() != committed) {
        throw new ProducerFencedException("Another task has written from " + source + " since.");
      }
      producer.kafka().beginTransaction();
      isOpen = true;
      openedAt = System.nanoTime();
    }
    return producer.kafka();
  }

  /** In how many nanoseconds the transaction has to be committed. */
  long left() {
    return isOpen ? intervalNanos - (System.nanoTime() - openedAt) : Long.MAX_VALUE;
  }

  /** Commits, if anything was written, with the offset to go on from. */
  void commit(long next) {
    if (isOpen) {
      var reached = Map.of(source, new OffsetAndMetadata(next));
      producer.kafka().sendOffsetsToTransaction(reached, group);
      producer.kafka().commitTransaction();
      committed = next;
      isOpen = false;
    }
  }

  /** Aborts what is open. */
  void close() {
    producer.close();
  }
}
