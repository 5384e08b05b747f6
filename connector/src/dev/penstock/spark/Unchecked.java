package dev.penstock.spark;

/** Throws what Java wants declared and Scala, which calls this code, does not. */
public final class Unchecked {
  private Unchecked() {}

  /** Never returns; its result lets the caller write {@code throw}. */
  @SuppressWarnings("unchecked")
  public static <E extends Throwable> RuntimeException rethrow(Throwable error) throws E {
    throw (E) error;
  }

  /** The exception with which Spark ends a task quietly, in place of Kafka's InterruptException. */
  static RuntimeException interrupted() {
    return Unchecked.<RuntimeException>rethrow(new InterruptedException());
  }
}
