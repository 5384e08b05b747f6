package dev.penstock.spark;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * The clients that the tasks of a batch leave to those of the next one, which would make connections
 * while records wait.
 */
public final class KeptClients {
  private static final Duration LONGEST = Duration.ofMinutes(5);
  /** Those of another run, which is over, or stopped between two of its batches. */
  private static final Duration LONGEST_OF_OTHERS = Duration.ofSeconds(30);
  /** Spark's setting for its own reader: a consumer may hold a megabyte of records, and fetch one. */
  private static final String CAPACITY = "spark.kafka.consumer.cache.capacity";
  private static final Map<Key, Kept> KEPT = new ConcurrentHashMap<>();

  /** What a task leaves to the one that does its work in the next batch. */
  public interface Clients {
    /** Whether they have a transactional id. */
    boolean ownsId();

    /** Whether they go on here, by the offset or the number that they are asked for. */
    boolean isAt(long start);

    void close();
  }

  /** {@code of}: a partition that is read, or a transactional id. */
  private record Key(String run, Object of) {}

  private record Kept(BatchOfRun batch, Clients clients, long sinceNanos) {
    private boolean isPast(Duration longest) {
      return System.nanoTime() - sinceNanos > longest.toNanos();
    }

    /** An older transaction may have lost its id to another executor since, if there is one. */
    private boolean goesOnIn(BatchOfRun next, long start) {
      boolean isOwner = !clients.ownsId() || next.follows(batch) || isInDriver();
      return isOwner && clients.isAt(start);
    }
  }

  private KeptClients() {}

  private static boolean isInDriver() {
    SparkEnv here = SparkEnv.get();
    return here != null && here.executorId().equals("driver");
  }

  static void keep(Object of, BatchOfRun batch, Clients clients) {
    keepBeside(0, of, batch, clients);
  }

  /** {@code others}: how many there may be beside those that read. */
  public static void keepBeside(int others, Object of, BatchOfRun batch, Clients clients) {
    keep(of, batch, clients, SparkEnv.get().conf().getInt(CAPACITY, 64) + others);
  }

  /** {@code capacity}: how many are kept at most. */
  static void keep(Object of, BatchOfRun batch, Clients clients, int capacity) {
    if (KEPT.size() >= capacity) {
      closeLater(clients);
      return;
    }
    Kept before =
        KEPT.put(new Key(batch.run(), of), new Kept(batch, clients, System.nanoTime()));
    if (before != null) { // of another task that has read a part of it
      closeLater(before.clients);
    }
  }

  /** As below; null for a second attempt: the first one may have taken the transactional id over. */
  public static Clients take(TaskContext task, Object of, BatchOfRun batch, long start) {
    boolean isFirst = task.attemptNumber() == 0 && task.stageAttemptNumber() == 0;
    return isFirst ? take(of, batch, start) : null;
  }

  /** Those of an earlier batch, if they go on from here; else null. */
  static Clients take(Object of, BatchOfRun batch, long start) {
    KEPT.forEach(
        (key, kept) -> {
          // Those that read and those that write name their run each in their own way.
          boolean isOfOthers =
              key.of().getClass() == of.getClass() && !key.run().equals(batch.run());
          Duration longest = isOfOthers ? LONGEST_OF_OTHERS : LONGEST;
          if (kept.isPast(longest) && KEPT.remove(key, kept)) {
            closeLater(kept.clients);
          }
        });
    Kept kept = KEPT.remove(new Key(batch.run(), of));
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
  private static void closeLater(Clients clients) {
    Uninterrupted.beginToClose(clients::close);
  }
}
