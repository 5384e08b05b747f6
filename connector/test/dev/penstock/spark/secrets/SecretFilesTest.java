package dev.penstock.spark.secrets;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** As operator/tests/unit/driver/test_secret_values.py; what is known stays known in this JVM. */
final class SecretFilesTest {
  @TempDir Path folder;

  private Path written(String value, long at) throws IOException {
    Path file = Files.writeString(folder.resolve("value"), value);
    return Files.setLastModifiedTime(file, FileTime.fromMillis(at));
  }

  private String redact(String text) throws IOException {
    return SecretFiles.redact(text);
  }

  @Test
  void aValueIsCutOutInEachForm() throws IOException {
    SecretFiles.redactFromNowOn(List.of(written("q\"<&> v1\n", 1000)));
    assertEquals("a *** b", redact("a q\"<&> v1 b"));
    assertEquals("{\"a\": \"***\"}", redact("{\"a\": \"q\\\"<&> v1\"}"));
    assertEquals("<td>***</td>", redact("<td>q&quot;&lt;&amp;&gt; v1</td>"));
    assertEquals("?p=***&q=***", redact("?p=q%22%3C%26%3E+v1&q=q%22%3C%26%3E%20v1"));
    String twice = "{\"a\": \"{\\\"b\\\": \\\"%s\\\"}\"}";
    assertEquals(twice.formatted("***"), redact(twice.formatted("q\\\\\\\"<&> v1")));
    assertEquals("token \"***\": 401", redact("token \"q\"<&> v1\": 401"));
  }

  @Test
  void theLongestGoesFirstAndTheShortestNot() throws IOException {
    SecretFiles.redactFromNowOn(List.of(written("v2-a\nv2-a-longer\nv2", 1000)));
    assertEquals("*** *** v2", redact("v2-a-longer v2-a v2"));
  }

  @Test
  void whatTheFileHeldBeforeIsCutOutToo() throws IOException {
    SecretFiles.redactFromNowOn(List.of(written("v3-old", 1000)));
    assertEquals("*** v3-new", redact("v3-old v3-new"));
    written("v3-new", 2000);
    assertEquals("*** ***", redact("v3-old v3-new"));
    Files.delete(folder.resolve("value"));
    assertEquals("*** ***", redact("v3-old v3-new"));
  }

  @Test
  void theContentHasNoLineBreakAtItsEnd() throws IOException {
    assertEquals(" v4 \n x", SecretFiles.content(written(" v4 \n x\r\n\n", 1000)));
  }

  @Test
  void aFileThatHasGoneHoldsWhatItHeld() throws IOException {
    Path file = written("v6", 1000);
    assertEquals("v6", SecretFiles.content(file));
    Files.delete(file);
    assertEquals("v6", SecretFiles.content(file));
    assertThrows(UncheckedIOException.class, () -> SecretFiles.content(folder.resolve("never")));
  }

  @Test
  void aStreamPassesWholeLinesOn() throws IOException {
    SecretFiles.redactFromNowOn(List.of(written("v5-ä", 1000)));
    var bytes = new ByteArrayOutputStream();
    var stream = new RedactingStream(new PrintStream(bytes, true, StandardCharsets.UTF_8));
    byte[] text = "one v5-ä\ntwo v5-ä and".getBytes(StandardCharsets.UTF_8);
    for (byte each : text) {
      stream.write(each);
    }
    assertEquals("one ***\n", bytes.toString(StandardCharsets.UTF_8));
    stream.write(" v5-ä\n\n".getBytes(StandardCharsets.UTF_8));
    stream.write("end".getBytes(StandardCharsets.UTF_8));
    assertEquals("one ***\ntwo *** and ***\n\n", bytes.toString(StandardCharsets.UTF_8));
    stream.close();
    assertEquals("one ***\ntwo *** and ***\n\nend", bytes.toString(StandardCharsets.UTF_8));
  }
}
