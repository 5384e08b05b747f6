package dev.penstock.spark.jdbc;

/** The database has fewer batches than were committed to it. */
public final class OlderDatabaseException extends RuntimeException {
  private static final long serialVersionUID = 1;

  OlderDatabaseException(long has, long had) {
    super("The table has the batches up to " + has + ", and had those up to " + had + ".");
  }
}
