package dev.penstock.spark.secrets;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import scala.xml.Utility;

/**
 * The values of Secrets' files, and how they are cut out of what this JVM says.
 *
 * <p>A value that was known stays so when the Secret has another one: it may still be used.
 */
public final class SecretFiles {
  private static final String REDACTED = "***";
  // Shorter ones are parts of too many words.
  private static final int SHORTEST = 4;
  // Ports and the like, and names of fields: a line of the log would not be JSON any more.
  private static final Pattern NO_SECRET =
      Pattern.compile(
          "true|false|null|[0-9]{1,7}|time|level|logger|message|exception|rootCause|trace|line");
  // The longest first, so that no part of one is left.
  private static final Comparator<String> LONGEST_FIRST =
      Comparator.comparingInt(String::length).reversed().thenComparing(Comparator.naturalOrder());

  /** What a file held when it was last looked at. */
  private record Content(FileTime writtenAt, String text) {}

  private static final Content NOT_READ = new Content(FileTime.fromMillis(-1), null);
  private static final Map<Path, Content> CONTENTS = new ConcurrentHashMap<>();

  private static final Set<String> FORMS = new TreeSet<>(LONGEST_FIRST);
  private static volatile List<String> forms = List.of();
  private static volatile Pattern known = Pattern.compile("(?!)");

  private SecretFiles() {}

  /** What a file holds, without the line break that an editor leaves at the end. */
  public static String read(Path file) throws IOException {
    return Files.readString(file).replaceFirst("[\\r\\n]+$", "");
  }

  /**
   * What a file holds, or if it has gone, what it held: Spark asks for a sink in each batch, and a
   * query that runs does not need the Secret. Its value is cut out from now on.
   */
  static String content(Path file) {
    CONTENTS.putIfAbsent(file, NOT_READ);
    try {
      look(file);
    } catch (IOException error) {
      if (CONTENTS.get(file) == NOT_READ) {
        throw new UncheckedIOException(error);
      }
    }
    return CONTENTS.get(file).text();
  }

  /** Makes the values in these files known, as they are and as they will be. */
  static void redactFromNowOn(Collection<Path> files) {
    files.forEach(file -> CONTENTS.putIfAbsent(file, NOT_READ));
    lookAtAll();
  }

  /** The text with asterisks in place of each known value, as it is or as JSON, XML or a URL. */
  static String redact(String text) {
    lookAtAll();
    // Most texts have none; an expression of many values is slow to say so.
    return forms.stream().anyMatch(text::contains) ? known.matcher(text).replaceAll(REDACTED) : text;
  }

  private static void lookAtAll() {
    for (Path file : CONTENTS.keySet()) {
      try {
        look(file);
      } catch (IOException missing) {
        continue; // the driver says so
      }
    }
  }

  private static void look(Path file) throws IOException {
    FileTime writtenAt = Files.getLastModifiedTime(file);
    if (!writtenAt.equals(CONTENTS.get(file).writtenAt())) {
      String text = read(file);
      learn(text);
      CONTENTS.put(file, new Content(writtenAt, text));
    }
  }

  private static synchronized void learn(String value) {
    boolean isNew = false;
    // A key of several lines is shown line by line.
    for (String part : value.lines().map(String::strip).toList()) {
      if (part.length() >= SHORTEST && !NO_SECRET.matcher(part).matches()) {
        for (String form : List.of(part, inPython(part))) {
          isNew |= FORMS.addAll(List.of(form, json(form), json(json(form)), Utility.escape(form)));
        }
        String inUrl = URLEncoder.encode(part, StandardCharsets.UTF_8);
        String inPath = inUrl.replace("+", "%20");
        isNew |= FORMS.addAll(List.of(inUrl, inPath, inPath.replace("%2F", "/")));
      }
    }
    if (isNew) {
      forms = List.copyOf(FORMS);
      known = Pattern.compile(FORMS.stream().map(Pattern::quote).collect(Collectors.joining("|")));
    }
  }

  private static String json(String text) {
    return String.valueOf(JsonStringEncoder.getInstance().quoteAsString(text));
  }

  /** As Python shows a text in a list or an object. */
  private static String inPython(String text) {
    return text.replace("\\", "\\\\").replace("'", "\\'");
  }
}
