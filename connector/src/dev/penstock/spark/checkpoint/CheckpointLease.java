package dev.penstock.spark.checkpoint;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The right to write a stream's checkpoints in an object store: an object that its holder renews,
 * each time on the condition that nobody else has replaced it.
 *
 * <p>A holder that could not renew it for a while ends this process, before another driver takes
 * what it has not seen renewed for longer (driver/checkpoint/storage/lease.py). No clocks are
 * compared.
 */
public final class CheckpointLease {
  /** The process's exit codes: another driver has the lease; it could not be renewed. */
  public static final int TAKEN_OVER = 90;

  public static final int NOT_RENEWED = 91;
  private static final Duration RENEWAL = Duration.ofSeconds(10);
  // A request that is not answered is given up later than the lease is over: another one may be.
  private static final Duration ATTEMPT = Duration.ofSeconds(3);
  private static final Duration LIMIT = Duration.ofSeconds(20);
  private static final String HOLDER = "penstock-holder";
  private static final String RELEASED = "penstock-released";
  private static final Logger LOG = LoggerFactory.getLogger(CheckpointLease.class);
  private static volatile CheckpointLease held;

  private final ObjectStore store;
  private final Path file;
  private final String holder;
  private final String nonce = ObjectStore.newNonce();
  private final AtomicLong renewals = new AtomicLong();
  private final AtomicLong attemptedNanos = new AtomicLong();
  private volatile Renewed renewed;
  private ScheduledExecutorService watch;

  /** When the newest renewal was asked for, by the clock that nobody sets and by that of a wall. */
  private record Renewed(long nanos, long millis) {
    static Renewed now() {
      return new Renewed(System.nanoTime(), System.currentTimeMillis());
    }

    /** The longer one: the first stands still while a machine sleeps. */
    Duration age() {
      Duration steady = Duration.ofNanos(System.nanoTime() - nanos);
      Duration wall = Duration.ofMillis(System.currentTimeMillis() - millis);
      return steady.compareTo(wall) > 0 ? steady : wall;
    }
  }

  /** The lease on what is below the store's root; the holder is the driver's pod. */
  public CheckpointLease(ObjectStore store, String holder) {
    this.store = store;
    this.holder = holder;
    file = store.path("penstock/owner");
  }

  /** The ETag, the holder, and whether it was released, separated by tabs; null: nobody's yet. */
  public String look() throws IOException {
    Map<String, byte[]> headers = store.headersOf(file);
    return headers.isEmpty()
        ? null
        : String.join("\t", etag(headers), text(headers, HOLDER), text(headers, RELEASED));
  }

  /** Takes the lease, if it still has this ETag (null: if there is none), and keeps it renewed. */
  public boolean take(String etag) throws IOException {
    Renewed asked = Renewed.now();
    try {
      put(etag, false);
    } catch (IOException refused) {
      Map<String, byte[]> headers = store.headersOf(file);
      if (!isMine(headers)) {
        if (Objects.equals(etag, etag(headers))) {
          throw refused;
        }
        return false;
      }
    }
    renewed = asked;
    held = this;
    watch =
        Executors.newScheduledThreadPool(
            8,
            work -> {
              Thread thread = new Thread(work, "checkpoint-lease");
              thread.setDaemon(true);
              return thread;
            });
    watch.scheduleWithFixedDelay(this::endIfOverdue, 1, 1, TimeUnit.SECONDS);
    watch.scheduleWithFixedDelay(this::renewIfDue, 1, 1, TimeUnit.SECONDS);
    return true;
  }

  /** Lets another driver take it at once. For a driver that writes nothing any more. */
  public void release() throws IOException {
    held = null;
    watch.shutdownNow();
    // A renewal may still come between the two.
    for (int attempt = 1; ; attempt++) {
      Map<String, byte[]> headers = store.headersOf(file);
      if (!isMine(headers)) {
        return;
      }
      try {
        put(etag(headers), true);
        return;
      } catch (IOException changed) {
        if (attempt == 3) {
          throw changed;
        }
      }
    }
  }

  /** Before each write of a driver: renews the lease first, if this process did not run for long. */
  static void ensureHeld() throws IOException {
    CheckpointLease lease = held;
    if (lease != null && lease.renewed.age().compareTo(LIMIT) >= 0) {
      lease.renew();
    }
  }

  /** Also beside a renewal that is not answered: of several, one succeeds. */
  private void renewIfDue() {
    long now = System.nanoTime();
    boolean due = renewed.age().compareTo(RENEWAL) >= 0;
    if (due && now - attemptedNanos.get() >= ATTEMPT.toNanos()) {
      attemptedNanos.set(now);
      watch.execute(this::tryToRenew);
    }
  }

  private void tryToRenew() {
    try {
      renew();
    } catch (IOException | RuntimeException error) {
      if (held == this) {
        LOG.warn("the lease of the checkpoint was not renewed: {}", error.toString());
      }
    }
  }

  private void renew() throws IOException {
    Renewed asked = Renewed.now();
    Map<String, byte[]> headers = store.headersOf(file);
    if (!headers.isEmpty() && !isMine(headers)) {
      end(TAKEN_OVER, "another driver has taken over the checkpoint: " + text(headers, HOLDER));
    }
    if (held != this) {
      return;
    }
    try {
      put(etag(headers), false); // one that was deleted is made again
    } catch (IOException refused) {
      if (renewed.nanos() > asked.nanos()) {
        return; // another attempt was faster
      }
      throw refused;
    }
    if (asked.nanos() > renewed.nanos()) {
      renewed = asked;
    }
  }

  private void endIfOverdue() {
    if (System.nanoTime() - renewed.nanos() >= LIMIT.toNanos()) {
      String limit = LIMIT.toSeconds() + " s";
      end(NOT_RENEWED, "the lease of the checkpoint was not renewed for " + limit);
    }
  }

  private void put(String etag, boolean released) throws IOException {
    // So that each has an ETag of its own.
    String content = String.join(" ", holder, nonce, String.valueOf(renewals.incrementAndGet()));
    Map<String, String> headers =
        Map.of(HOLDER, holder, ObjectStore.NONCE, nonce, RELEASED, String.valueOf(released));
    ObjectStore.Condition condition =
        etag == null ? ObjectStore.Condition.NEW : ObjectStore.Condition.unchanged(etag);
    store.put(file, content.getBytes(StandardCharsets.UTF_8), headers, condition);
  }

  private boolean isMine(Map<String, byte[]> headers) {
    return nonce.equals(text(headers, ObjectStore.NONCE));
  }

  private static String etag(Map<String, byte[]> headers) {
    byte[] value = headers.get("header.ETag");
    return value == null ? null : new String(value, StandardCharsets.UTF_8);
  }

  private static String text(Map<String, byte[]> headers, String name) {
    byte[] value = headers.get("header." + name);
    return value == null ? "" : new String(value, StandardCharsets.UTF_8);
  }

  private static void end(int exitCode, String why) {
    LOG.error("the process ends at once: {}", why);
    Runtime.getRuntime().halt(exitCode);
  }
}
