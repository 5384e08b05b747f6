package dev.penstock.spark;

import java.time.Duration;
import java.util.Comparator;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * What one task of each batch writes, and the number of the newest batch of which it is there: Kafka
 * keeps both or none.
 *
 * <p>For a query whose tasks write what others have read, so that no offset of the source belongs to
 * what they write. A batch that runs again is the same batch: Spark writes its offsets before it, and
 * once. The number is kept as the offset of a consumer group of the task.
 */
final class BatchTransaction implements KeptClients.Clients {
  private final String id;
  private final TopicPartition keptAt;
  private final TransactionalProducer producer;
  /** One more than the newest batch, and a note of what it has; null if there is none. */
  private OffsetAndMetadata newest;

  BatchTransaction(TransactionOptions asked, int task) {
    id = asked.idOf(task);
    keptAt = asked.batchesAt();
    producer = new TransactionalProducer(asked.producerFor(id));
    try {
      newest = askGroup(); // now that nobody else commits any more
    } catch (Throwable failed) { // also an interrupt, which is not declared here
      close();
      throw failed;
    }
  }

  /** The note of a batch whose rows are there; null if they are not. */
  String noteOf(long batch) {
    if (newest == null || newest.offset() <= batch) {
      return null;
    }
    if (newest.offset() > batch + 1) {
      throw TransactionOptions.refusal(
          "the sink has batch " + (newest.offset() - 1) + ", and batch " + batch
              + " is to be written: the checkpoint is an older copy.");
    }
    return newest.metadata();
  }

  /** Begins, with the newest token. */
  KafkaProducer<byte[], byte[]> begin() {
    if (producer.renew()) {
      OffsetAndMetadata before = newest;
      newest = askGroup();
      if (newest != null && (before == null || newest.offset() != before.offset())) {
        throw new ProducerFencedException("Another task has written as " + id + " since.");
      }
    }
    producer.kafka().beginTransaction();
    return producer.kafka();
  }

  void commit(long batch, String note) {
    OffsetAndMetadata next = new OffsetAndMetadata(batch + 1, Optional.empty(), note);
    var group = new ConsumerGroupMetadata(id);
    producer.kafka().sendOffsetsToTransaction(Map.of(keptAt, next), group);
    producer.kafka().commitTransaction();
    newest = next;
  }

  @Override
  public boolean ownsId() {
    return true;
  }

  /** Any batch may follow. */
  @Override
  public boolean isAt(long batch) {
    return true;
  }

  /** Aborts what is open. */
  @Override
  public void close() {
    producer.close();
  }

  /** At the newest of the partitions at which the number was ever kept. */
  private OffsetAndMetadata askGroup() {
    Admin client = Admin.create(producer.parameters());
    try {
      var stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
      return client
          .listConsumerGroupOffsets(Map.of(id, new ListConsumerGroupOffsetsSpec()), stable)
          .partitionsToOffsetAndMetadata(id)
          .get()
          .values()
          .stream()
          .filter(Objects::nonNull)
          .max(Comparator.comparingLong(OffsetAndMetadata::offset))
          .orElse(null);
    } catch (ExecutionException failed) {
      throw Unchecked.<RuntimeException>rethrow(failed.getCause());
    } catch (InterruptedException stopped) {
      throw Unchecked.<RuntimeException>rethrow(stopped);
    } finally {
      client.close(Duration.ZERO); // a task that is stopped waits for no answer
    }
  }
}
