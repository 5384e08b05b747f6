package dev.penstock.spark;

/** Runs what a task that is stopped has to finish: Spark interrupts its thread, also again. */
final class Uninterrupted {
  private Uninterrupted() {}

  /** Begins to close a client of Kafka, which logs what fails, and waits for nothing. */
  static Thread beginToClose(Runnable client) {
    var closing = new Thread(client, "penstock-kafka-close");
    closing.setDaemon(true);
    closing.setUncaughtExceptionHandler((thread, logged) -> {});
    closing.start();
    return closing;
  }

  /** Closes a client of Kafka, which logs what fails, and what an interrupt has cut short. */
  static void close(Runnable client) {
    Thread closing = beginToClose(client);
    boolean interrupted = false;
    while (closing.isAlive()) {
      try {
        closing.join();
      } catch (InterruptedException stopped) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
