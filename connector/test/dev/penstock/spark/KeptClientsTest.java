package dev.penstock.spark;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Beside test_penstock_kafka.py, in which real tasks leave them to one another. */
final class KeptClientsTest {
  private static final TopicPartition PARTITION = new TopicPartition("payments", 3);

  private static final class Clients implements PartitionLog.Consumers {
    private final MockConsumer<byte[], byte[]> consumer =
        new MockConsumer<>(OffsetResetStrategy.NONE);
    private final PartitionClients made =
        new PartitionClients(
            new PartitionLog(PARTITION, 5, true, Duration.ZERO, this), null, Duration.ZERO);

    @Override
    public Consumer<byte[], byte[]> make() {
      return consumer;
    }

    @Override
    public boolean isOutdated() {
      return false;
    }

    @Override
    public long logEnd(TopicPartition partition) {
      return 5;
    }

    @Override
    public String group() {
      return "of-spark";
    }
  }

  private static BatchOfRun batch(String run, long number) {
    return new BatchOfRun(run, number);
  }

  private static Clients keptIn(BatchOfRun batch, int capacity) {
    Clients clients = new Clients();
    KeptClients.keep(PARTITION, batch, clients.made, capacity);
    return clients;
  }

  @Test
  void theNextBatchGetsThemOnce() {
    Clients clients = keptIn(batch("a", 1), 10);
    assertSame(clients.made, KeptClients.take(PARTITION, batch("a", 2), 5));
    assertNull(KeptClients.take(PARTITION, batch("a", 2), 5));
    assertFalse(clients.consumer.closed());
  }

  @Test
  void aBatchThatBeginsElsewhereDoesNot() {
    Clients clients = keptIn(batch("b", 1), 10);
    assertNull(KeptClients.take(PARTITION, batch("b", 2), 4));
    assertTrue(clients.consumer.closed());
  }

  /** One that was empty for this partition had no task for it. */
  @Test
  void aLaterBatchGetsThemToo() {
    Clients clients = keptIn(batch("c", 1), 10);
    assertSame(clients.made, KeptClients.take(PARTITION, batch("c", 3), 5));
  }

  /** Where the batch between has run, the transactional id has another owner. */
  @Test
  void aTransactionGoesOnInTheNextBatchOnly() {
    assertTrue(batch("d", 2).follows(batch("d", 1)));
    assertFalse(batch("d", 3).follows(batch("d", 1)));
    assertFalse(batch("d", 1).follows(batch("d", 1)));
    assertFalse(batch("e", 2).follows(batch("d", 1)));
  }

  @Test
  void anotherQueryLeavesThem() {
    Clients clients = keptIn(batch("e", 1), 10);
    assertNull(KeptClients.take(PARTITION, batch("f", 2), 5));
    assertFalse(clients.consumer.closed());
    assertSame(clients.made, KeptClients.take(PARTITION, batch("e", 2), 5));
  }

  @Test
  void whatFindsNoRoomIsClosed() throws InterruptedException {
    Clients clients = keptIn(batch("g", 1), 0);
    for (int look = 0; look < 1_000 && !clients.consumer.closed(); look++) {
      Thread.sleep(10);
    }
    assertTrue(clients.consumer.closed());
  }
}
