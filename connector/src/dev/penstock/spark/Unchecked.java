package dev.penstock.spark;

/** Throws what Java wants declared and Scala, which calls this code, does not. */
final class Unchecked {
  private Unchecked() {}

  /** Never returns; its result lets the caller write {@code throw}. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException rethrow(Throwable error) throws E {
    throw (E) error;
  }
}
