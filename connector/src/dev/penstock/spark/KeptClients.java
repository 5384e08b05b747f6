package dev.penstock.spark;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;

/**
 * The clients that the tasks of a batch leave to those of the next one, which would make connections
 * while records wait.
 */
final class KeptClients {
  private static final Duration LONGEST = Duration.ofMinutes(5);
  /** Those of another run, which is over, or stopped between two of its batches. */
  private static final Duration LONGEST_OF_OTHERS = Duration.ofSeconds(30);

  private static final Map<Key, Kept> KEPT = new ConcurrentHashMap<>();

  private record Key(String run, TopicPartition partition) {}

  private record Kept(BatchOfRun batch, PartitionClients clients, long sinceNanos) {
    private boolean isPast(BatchOfRun now) {
      Duration longest = now.run().equals(batch.run()) ? LONGEST : LONGEST_OF_OTHERS;
      return System.nanoTime() - sinceNanos > longest.toNanos();
    }

    /** An older transaction may have lost its id to another executor since, if there is one. */
    private boolean goesOnIn(BatchOfRun next, long start) {
      boolean isOwner = clients.transaction() == null || next.follows(batch) || isInDriver();
      return isOwner && clients.log().next() == start;
    }
  }

  private KeptClients() {}

  private static boolean isInDriver() {
    SparkEnv here = SparkEnv.get();
    return here != null && here.executorId().equals("driver");
  }

  /** {@code capacity}: how many are kept at most. */
  static void keep(
      TopicPartition partition, BatchOfRun batch, PartitionClients clients, int capacity) {
    if (KEPT.size() >= capacity) {
      closeLater(clients);
      return;
    }
    Kept before =
        KEPT.put(
            new Key(batch.run(), partition), new Kept(batch, clients, System.nanoTime()));
    if (before != null) { // of another task that has read a part of it
      closeLater(before.clients);
    }
  }

  /** Those of an earlier batch, if they are at this offset; else null. */
  static PartitionClients take(TopicPartition partition, BatchOfRun batch, long start) {
    KEPT.forEach(
        (key, kept) -> {
          if (kept.isPast(batch) && KEPT.remove(key, kept)) {
            closeLater(kept.clients);
          }
        });
    Kept kept = KEPT.remove(new Key(batch.run(), partition));
    if (kept == null) {
      return null;
    }
    if (!kept.goesOnIn(batch, start)) {
      kept.clients.close(); // before another producer takes its id
      return null;
    }
    return kept.clients;
  }

  /** No task follows. */
  static void closeAll() {
    KEPT.forEach(
        (key, kept) -> {
          if (KEPT.remove(key, kept)) {
            closeLater(kept.clients);
          }
        });
  }

  /** It waits for the answer to a fetch, and no task for that. */
  private static void closeLater(PartitionClients clients) {
    Uninterrupted.beginToClose(clients::close);
  }
}
