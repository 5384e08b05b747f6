package dev.penstock.spark.jdbc;

/** Another driver of the stream has taken its place in the ledger, and this one writes no more. */
public final class FencedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  FencedException() {
    super("Another driver of the stream writes to the table now.");
  }
}
