package dev.penstock.spark.checkpoint;

import dev.penstock.spark.Unchecked;
import java.io.IOException;

/**
 * A file of the checkpoint that could not be written.
 *
 * <p>The continuous engine commits in an endpoint that swallows the exception, so the driver asks
 * for it.
 */
public final class FailedWrite {
  private static volatile String path;

  private FailedWrite() {}

  /** The newest one since the last call; null if there is none. */
  public static String take() {
    String failed = path;
    path = null;
    return failed;
  }

  /** Notes it, and returns what Scala's methods throw without declaring it. */
  static RuntimeException of(Object file, IOException error) {
    path = file.toString();
    return Unchecked.<RuntimeException>rethrow(error);
  }
}
