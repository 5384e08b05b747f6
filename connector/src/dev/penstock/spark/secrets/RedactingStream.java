package dev.penstock.spark.secrets;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Passes whole lines on, without the values of Secrets. */
final class RedactingStream extends OutputStream {
  // A line without an end is passed on in parts of this size.
  private static final int LONGEST_LINE = 1 << 20;

  private final PrintStream next;
  private final ByteArrayOutputStream line = new ByteArrayOutputStream();

  RedactingStream(PrintStream next) {
    this.next = next;
    Runtime.getRuntime().addShutdownHook(new Thread(this::close, "redaction-last-line"));
  }

  @Override
  public synchronized void write(int value) {
    line.write(value);
    if (value == '\n' || line.size() >= LONGEST_LINE) {
      pass();
    }
  }

  @Override
  public synchronized void write(byte[] bytes, int offset, int length) {
    int begin = offset;
    for (int i = offset; i < offset + length; i++) {
      if (bytes[i] == '\n') {
        line.write(bytes, begin, i + 1 - begin);
        pass();
        begin = i + 1;
      }
    }
    line.write(bytes, begin, offset + length - begin);
    if (line.size() >= LONGEST_LINE) {
      pass();
    }
  }

  /** Passes on the line that has no end yet. */
  @Override
  public synchronized void close() {
    pass();
  }

  private void pass() {
    if (line.size() > 0) {
      String text = SecretFiles.redact(line.toString(StandardCharsets.UTF_8));
      byte[] clean = text.getBytes(StandardCharsets.UTF_8);
      line.reset();
      next.write(clean, 0, clean.length);
      next.flush();
    }
  }
}
