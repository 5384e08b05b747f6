package dev.penstock.spark;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;

/**
 * The clients that the tasks of a batch leave to those of the next one, which would make connections
 * while records wait.
 */
final class KeptClients {
  private static final long MOST_NANOS = Duration.ofMinutes(5).toNanos();

  private static final Map<Key, Kept> KEPT = new ConcurrentHashMap<>();

  private record Key(String run, TopicPartition partition) {}

  private record Kept(BatchOfRun batch, PartitionClients clients, long sinceNanos) {
    /** An older one of a transaction may have lost its id to another executor since. */
    private boolean isPast(BatchOfRun now) {
      boolean isOlder = now.run().equals(batch.run()) && batch.number() < now.number() - 1;
      return isOlder || System.nanoTime() - sinceNanos > MOST_NANOS;
    }
  }

  private KeptClients() {}

  /** {@code capacity}: how many are kept at most. */
  static void keep(
      TopicPartition partition, BatchOfRun batch, PartitionClients clients, int capacity) {
    if (KEPT.size() >= capacity) {
      clients.close();
      return;
    }
    Kept before =
        KEPT.put(
            new Key(batch.run(), partition), new Kept(batch, clients, System.nanoTime()));
    if (before != null) { // of another task that has read a part of it
      before.clients.close();
    }
  }

  /** Those of the batch before, if they are at this offset; else null. Closes what is older. */
  static PartitionClients take(TopicPartition partition, BatchOfRun batch, long start) {
    KEPT.forEach(
        (key, kept) -> {
          if (kept.isPast(batch) && KEPT.remove(key, kept)) {
            kept.clients.close();
          }
        });
    Kept kept = KEPT.remove(new Key(batch.run(), partition));
    if (kept == null) {
      return null;
    }
    if (!batch.follows(kept.batch) || kept.clients.log().next() != start) {
      kept.clients.close();
      return null;
    }
    return kept.clients;
  }
}
