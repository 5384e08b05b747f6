package dev.penstock.spark;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends a batch of real-time mode before its time, in all of its tasks: because the query is to stop,
 * or because a task has a backlog, which a failure would write again.
 *
 * <p>A thread of each executor asks the driver. So no task waits for an answer.
 */
public final class RealTimeBatches implements SparkPlugin {
  private static final Logger LOG = LoggerFactory.getLogger(RealTimeBatches.class);
  private static final BatchOfRun NONE = new BatchOfRun("", 0);
  private static final String ASK = "which batch has ended?";
  private static final long INTERVAL_MS = 500;

  /** In the driver. */
  private static volatile BatchOfRun current = NONE;
  /** The last one that is to end, and with it all before it. */
  private static volatile BatchOfRun ended = NONE;
  /** In an executor; null in the driver's JVM, which knows by itself. */
  private static volatile PluginContext driver;
  private static volatile long readAtNanos;

  /** In the driver: ends the batch that runs, and lets no later one of the query read anything. */
  public static void endForGood() {
    ended = new BatchOfRun(current.run(), Long.MAX_VALUE);
  }

  static void begin(BatchOfRun batch) {
    current = batch;
  }

  /** In a task: ends its batch for the others too. */
  static void end(BatchOfRun batch) {
    PluginContext to = driver;
    if (to == null) {
      endCurrent(batch);
      return;
    }
    try {
      to.send(batch);
    } catch (Exception unsent) { // then the others go on until its time is over
      LOG.info("The end of a batch was not sent.", unsent);
    }
  }

  /** In a task: the last batch that is to end. */
  static BatchOfRun ended() {
    return ended;
  }

  private static void endCurrent(BatchOfRun batch) {
    if (batch.equals(current) && !batch.isUntil(ended)) {
      ended = batch;
    }
  }

  /** In a task: its batch reads, so the driver has to be asked about it. */
  static void isRead(long nowNanos) {
    readAtNanos = nowNanos;
  }

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Object receive(Object message) {
        if (message instanceof BatchOfRun batch) {
          endCurrent(batch);
        }
        return ended;
      }
    };
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      private Thread asking;

      @Override
      public void init(PluginContext context, Map<String, String> unused) {
        if (!context.executorID().equals("driver")) {
          driver = context;
          asking = new Thread(RealTimeBatches::keepAsking, "penstock-batches");
          asking.setDaemon(true);
          asking.start();
        }
      }

      @Override
      public void shutdown() {
        if (asking != null) {
          asking.interrupt();
        }
      }
    };
  }

  private static void keepAsking() {
    try {
      while (true) {
        Thread.sleep(INTERVAL_MS);
        if (System.nanoTime() - readAtNanos < TimeUnit.SECONDS.toNanos(10)) {
          ask();
        }
      }
    } catch (InterruptedException stopped) {
      LOG.debug("No batch is followed any more.");
    }
  }

  private static void ask() throws InterruptedException {
    try {
      ended = (BatchOfRun) driver.ask(ASK);
    } catch (InterruptedException stopped) {
      throw stopped;
    } catch (Exception unanswered) {
      LOG.info("The driver did not say which batch has ended.", unanswered);
    }
  }
}
