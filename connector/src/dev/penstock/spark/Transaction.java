package dev.penstock.spark;

import java.time.Duration;
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
 * <p>Its transactional id is that of the partition. Whoever asks for it last has it: Kafka aborts
 * what the owner before has left open, and refuses its later requests.
 */
final class Transaction {
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(2);

  private final TopicPartition source;
  private final ConsumerGroupMetadata group;
  private final long intervalNanos;
  private final ClientParameters clients;
  /** For the offset that the group has committed. */
  private LongSupplier askGroup;
  private Map<String, Object> parameters;
  private KafkaProducer<byte[], byte[]> producer;
  private boolean isOpen;
  private long openedAt;
  /** The offset that the group has, unless somebody else has written the partition since. */
  private long committed;

  Transaction(TransactionOptions asked, TopicPartition source) {
    this.source = source;
    group = new ConsumerGroupMetadata(asked.group());
    intervalNanos = TimeUnit.MILLISECONDS.toNanos(asked.intervalMs());
    clients = new ClientParameters(asked.producerFor(asked.idOf(source)));
    connect();
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
      if (clients.areOutdated(parameters)) {
        close();
        connect(); // which takes the id from a task that has followed this one, if it was frozen
        if (askGroup.getAsLong() != committed) {
          throw new ProducerFencedException("Another task has written from " + source + " since.");
        }
      }
      producer.beginTransaction();
      isOpen = true;
      openedAt = System.nanoTime();
    }
    return producer;
  }

  /** In how many nanoseconds the transaction has to be committed. */
  long left() {
    return isOpen ? intervalNanos - (System.nanoTime() - openedAt) : Long.MAX_VALUE;
  }

  /** Commits, if anything was written, with the offset to go on from. */
  void commit(long next) {
    if (isOpen) {
      producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(next)), group);
      producer.commitTransaction();
      committed = next;
      isOpen = false;
    }
  }

  /** Aborts what is open. */
  void close() {
    Uninterrupted.close(() -> producer.close(CLOSE_TIMEOUT));
  }

  private void connect() {
    parameters = clients.build();
    producer = new KafkaProducer<>(parameters);
    try {
      producer.initTransactions();
    } catch (RuntimeException failed) {
      close();
      throw failed;
    }
  }
}
