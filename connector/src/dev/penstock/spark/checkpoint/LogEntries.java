package dev.penstock.spark.checkpoint;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * What this process knows of a log in an object store, such as the checkpoint's commits: it has
 * listed it once, and writes and deletes all of it since. So nothing asks the store for what is new.
 */
final class LogEntries {
  private static final Map<Path, LogEntries> LOGS = new ConcurrentHashMap<>();

  /** An entry; the content and the nonce of one that this process has not written are null. */
  record Entry(long writtenAt, byte[] content, String nonce) {}

  private final ConcurrentSkipListMap<Long, Entry> entries = new ConcurrentSkipListMap<>();
  private volatile boolean listed;
  private long changes;

  /** Those of a log. */
  static LogEntries of(Path log) {
    return LOGS.computeIfAbsent(log, path -> new LogEntries());
  }

  /** The number of a log's entry; -1 if the file is another one. */
  static long number(Path file) {
    String name = file.getName();
    boolean isNumber = !name.isEmpty() && name.chars().allMatch(c -> c >= '0' && c <= '9');
    return isNumber && name.length() < 19 ? Long.parseLong(name) : -1;
  }

  boolean isListed() {
    return listed;
  }

  /** How often this process has changed the log. */
  synchronized long changes() {
    return changes;
  }

  /**
   * Takes what a listing has found, which began after so many changes: if there were more since, it
   * may lack some of them, and adds only what was not known before.
   */
  synchronized void list(Collection<FileStatus> found, long changesBefore) {
    if (listed && changes != changesBefore) {
      return;
    }
    Map<Long, FileStatus> byNumber =
        found.stream()
            .filter(file -> number(file.getPath()) >= 0)
            .collect(Collectors.toMap(file -> number(file.getPath()), file -> file));
    if (changes == changesBefore) {
      entries.keySet().retainAll(byNumber.keySet());
    }
    byNumber.forEach(
        (number, file) ->
            entries.putIfAbsent(number, new Entry(file.getModificationTime(), null, null)));
    listed = true;
  }

  synchronized void written(long number, byte[] content, String nonce) {
    changes++;
    entries.put(number, new Entry(System.currentTimeMillis(), content, nonce));
  }

  /**
   * An entry is not needed any more: nothing is kept of it but that it is there, where the store
   * does not delete it.
   */
  synchronized void purged(long number) {
    entries.computeIfPresent(
        number, (same, entry) -> new Entry(entry.writtenAt(), null, entry.nonce()));
  }

  synchronized void deleted(long number) {
    changes++;
    entries.remove(number);
  }

  Entry get(long number) {
    return entries.get(number);
  }

  /** Whether the log has no entry of this number, which only a listing can tell. */
  boolean lacks(long number) {
    return listed && !entries.containsKey(number);
  }

  /** The numbers, ascending. */
  List<Long> numbers() {
    return List.copyOf(entries.keySet());
  }
}
