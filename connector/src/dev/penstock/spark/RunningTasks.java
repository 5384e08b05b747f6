package dev.penstock.spark;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows of the tasks that run in this JVM, where the driver runs them itself.
 *
 * <p>Executors report them with their heartbeats. In one JVM these lack the names of Spark's own
 * metrics, and Spark passes over those (TaskMetrics.fromAccumulatorInfos, 4.3): rows would only be
 * seen when a task ends, and a task of some minutes would look like a stuck one.
 */
public final class RunningTasks implements SparkPlugin {
  private static final Set<TaskMetrics> RUNNING = ConcurrentHashMap.newKeySet();

  /** How many rows they have read from the source, read from and written to shuffles, and written. */
  public static String rows() {
    long read = 0;
    long shuffled = 0;
    long written = 0;
    for (TaskMetrics task : RUNNING) {
      read += task.inputMetrics().recordsRead();
      shuffled += shuffled(task);
      written += task.outputMetrics().recordsWritten();
    }
    return read + " " + shuffled + " " + written;
  }

  private static long shuffled(TaskMetrics task) {
    return task.shuffleReadMetrics().recordsRead() + task.shuffleWriteMetrics().recordsWritten();
  }

  @Override
  public DriverPlugin driverPlugin() {
    return null;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new ExecutorPlugin() {
      /** In the task's thread. */
      @Override
      public void onTaskStart() {
        TaskContext task = TaskContext.get();
        TaskMetrics metrics = task.taskMetrics();
        RUNNING.add(metrics);
        TaskCompletionListener ended = context -> RUNNING.remove(metrics);
        task.addTaskCompletionListener(ended);
      }

      /** The next session may have executors, and no task in this JVM. */
      @Override
      public void shutdown() {
        KeptClients.closeAll();
      }
    };
  }
}
