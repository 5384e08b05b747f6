package dev.penstock.spark.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.UnknownStoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A checkpoint's files in an object store, for Spark and for the driver, through Hadoop's S3A.
 *
 * <p>A new file is one PUT on the condition that there is none. Each has a nonce, which tells after
 * a failure whether it was written: S3A repeats a PUT whose answer was lost, and is then refused
 * its own file. A commit names the nonce of the offsets that it is about, so that a late one of an
 * earlier driver does not count for other offsets of the same number.
 */
public final class ObjectStore {
  static final String NONCE = "penstock-nonce";
  private static final String OFFSETS_NONCE = "penstock-offsets-nonce";
  private static final String OFFSETS = "offsets";
  private static final String COMMITS = "commits";
  private static final long WRITE_NANOS = Duration.ofSeconds(60).toNanos();
  private static final long FIRST_PAUSE_MILLIS = 50;
  private static final int READERS = 16;
  private static final Logger LOG = LoggerFactory.getLogger(ObjectStore.class);
  private static final ExecutorService REQUESTS =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work, "object-store");
            thread.setDaemon(true);
            return thread;
          });

  private final FileSystem store;
  private final Path root;

  /** A folder of the store, such as s3a://bucket/prefix. Asks the store for nothing. */
  public ObjectStore(String root, Configuration conf) throws IOException {
    this.root = new Path(root);
    store = this.root.getFileSystem(conf);
  }

  /** The names in a folder, a line each: a file's with its ETag after a tab, a folder's with "/". */
  public String list(String folder) throws IOException {
    return list(path(folder)).stream()
        .map(ObjectStore::line)
        .collect(Collectors.joining("\n"));
  }

  private static String line(FileStatus file) {
    String name = file.getPath().getName();
    return file.isDirectory() ? name + "/" : name + "\t" + ((EtagSource) file).getEtag();
  }

  /** What is in a folder; nothing if there is none. */
  List<FileStatus> list(Path folder) throws IOException {
    LogEntries log = isLog(folder) ? LogEntries.of(folder) : null;
    long changes = log == null ? 0 : log.changes();
    List<FileStatus> found;
    try {
      found = List.of(store.listStatus(folder));
    } catch (FileNotFoundException none) {
      found = List.of();
    }
    if (log != null) {
      log.list(found, changes);
    }
    return found;
  }

  /** The files' contents, in this order; null for one that does not exist. */
  public List<byte[]> read(List<String> files) throws IOException {
    List<byte[]> contents = new ArrayList<>();
    // So many requests at once: a log has a hundred entries.
    for (int start = 0; start < files.size(); start += READERS) {
      List<Future<byte[]>> some = new ArrayList<>();
      for (String file : files.subList(start, Math.min(files.size(), start + READERS))) {
        some.add(REQUESTS.submit(() -> read(new Path(root, file))));
      }
      for (Future<byte[]> one : some) {
        contents.add(waitFor(one));
      }
    }
    return contents;
  }

  private byte[] read(Path file) throws IOException {
    try (FSDataInputStream in = store.open(file)) {
      return in.readAllBytes();
    } catch (FileNotFoundException none) {
      return null;
    }
  }

  /**
   * Writes a file, or replaces it: only for a driver that no query runs in.
   *
   * <p>Offsets that are replaced keep their nonce, and a commit is one of the offsets that are
   * there.
   */
  public void write(String file, byte[] content) throws IOException {
    Path path = new Path(root, file);
    String nonce = isEntry(path, OFFSETS) ? header(path, NONCE) : null;
    Map<String, String> headers = headers(path, nonce == null ? newNonce() : nonce);
    write(
        () -> {
          CheckpointLease.ensureHeld();
          put(path, content, headers, Condition.NONE);
          return null;
        });
    written(path, content, headers);
  }

  /**
   * Creates a file.
   *
   * @throws FileAlreadyExistsException if another writer has
   */
  void create(Path file, byte[] content) throws IOException {
    Map<String, String> headers = headers(file, newNonce());
    write(
        () -> {
          create(file, content, headers);
          return null;
        });
    written(file, content, headers);
  }

  private void create(Path file, byte[] content, Map<String, String> headers)
      throws IOException, InterruptedException {
    long deadline = System.nanoTime() + WRITE_NANOS;
    for (long pause = FIRST_PAUSE_MILLIS; ; pause = Math.min(1000, 2 * pause)) {
      IOException failure;
      try {
        CheckpointLease.ensureHeld();
        put(file, content, headers, Condition.NEW);
        return;
      } catch (AccessDeniedException | UnknownStoreException never) {
        throw never;
      } catch (IOException error) {
        failure = error;
      }
      try {
        String by = header(file, NONCE);
        if (headers.get(NONCE).equals(by)) {
          return;
        }
        if (by != null || store.exists(file)) {
          throw new FileAlreadyExistsException(file + " was written by another driver");
        }
      } catch (FileAlreadyExistsException exists) {
        throw exists;
      } catch (IOException unknown) {
        failure.addSuppressed(unknown);
      }
      if (System.nanoTime() > deadline) {
        throw failure;
      }
      if (pause == FIRST_PAUSE_MILLIS) {
        LOG.warn("{} is written again: {}", file, failure.toString());
      }
      Thread.sleep(pause);
    }
  }

  /** Deletes a file, if it exists. */
  public void delete(String file) throws IOException {
    CheckpointLease.ensureHeld();
    delete(path(file));
  }

  void delete(Path file) throws IOException {
    try (BulkDelete delete = store.createBulkDelete(file.getParent())) {
      for (Map.Entry<Path, String> kept : delete.bulkDelete(List.of(file))) {
        throw new IOException(kept.getKey() + ": " + kept.getValue());
      }
    }
    if (isEntry(file)) {
      LogEntries.of(file.getParent()).deleted(LogEntries.number(file));
    }
  }

  /** The numbers of a log's entries, ascending, a line each. */
  public String entries(String log) throws IOException {
    LogEntries known = LogEntries.of(new Path(root, log));
    if (!known.isListed()) {
      list(log);
    }
    return known.numbers().stream().map(String::valueOf).collect(Collectors.joining("\n"));
  }

  /** When an entry was written, in milliseconds since 1970; 0 if there is none. */
  public long writtenAt(String log, long number) {
    LogEntries.Entry entry = LogEntries.of(new Path(root, log)).get(number);
    return entry == null ? 0 : entry.writtenAt();
  }

  /** An entry's content; null if there is none. */
  public byte[] content(String log, long number) throws IOException {
    LogEntries.Entry entry = LogEntries.of(new Path(root, log)).get(number);
    if (entry != null && entry.content() != null) {
      return entry.content();
    }
    return entry == null ? null : read(new Path(root, log + "/" + number));
  }

  /** Whether a commit is about the offsets of its number, as far as both say. */
  public boolean isOfItsOffsets(String checkpoint, long number) throws IOException {
    String about = header(path(checkpoint + "/" + COMMITS + "/" + number), OFFSETS_NONCE);
    String offsets = header(path(checkpoint + "/" + OFFSETS + "/" + number), NONCE);
    return about == null || offsets == null || about.equals(offsets);
  }

  /** Whether the store refuses to write a file again, and to replace one that has changed. */
  public boolean honoursConditions() throws IOException {
    Path file = path("penstock/probe-" + newNonce());
    put(file, new byte[] {1}, Map.of(), Condition.NEW);
    try {
      Condition changed = Condition.unchanged("0123456789abcdef");
      return refuses(file, Condition.NEW) && refuses(file, changed);
    } finally {
      delete(file);
    }
  }

  private boolean refuses(Path file, Condition condition) throws IOException {
    try {
      put(file, new byte[] {2}, Map.of(), condition);
      return false;
    } catch (RemoteFileChangedException | FileAlreadyExistsException refused) {
      return true;
    }
  }

  /** When a PUT is to happen: always, if there is no file, or if it still has this ETag. */
  record Condition(boolean isNew, String etag) {
    static final Condition NONE = new Condition(false, null);
    static final Condition NEW = new Condition(true, null);

    static Condition unchanged(String etag) {
      return new Condition(false, etag);
    }
  }

  /** One PUT. An IOException may mean that it was refused, or that its answer was lost. */
  void put(Path file, byte[] content, Map<String, String> headers, Condition condition)
      throws IOException {
    FSDataOutputStreamBuilder<?, ?> made = created(file, condition);
    headers.forEach((name, value) -> made.opt("fs.s3a.create.header." + name, value));
    FSDataOutputStream out = made.build();
    try {
      out.write(content);
    } catch (IOException error) {
      out.abort();
      out.close();
      throw error;
    }
    out.close();
  }

  /** A file that takes its content bit by bit, and that is there when it is closed. */
  FSDataOutputStream replace(Path file) throws IOException {
    return created(file, Condition.NONE).build();
  }

  private FSDataOutputStreamBuilder<?, ?> created(Path file, Condition condition) {
    FSDataOutputStreamBuilder<?, ?> made =
        store.createFile(file).recursive().overwrite(!condition.isNew());
    if (condition.isNew()) {
      made.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
    } else if (condition.etag() != null) {
      made.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE_ETAG, condition.etag());
    } else {
      made.opt("fs.s3a.create.performance", true);
    }
    return made;
  }

  /** A file's user metadata; null if it has none of this name, or if there is no file. */
  private String header(Path file, String name) throws IOException {
    byte[] value = headersOf(file).get("header." + name);
    return value == null ? null : new String(value, StandardCharsets.UTF_8);
  }

  /** All that a HEAD tells of a file, by "header." and a name; nothing if there is none. */
  Map<String, byte[]> headersOf(Path file) throws IOException {
    try {
      return store.getXAttrs(file);
    } catch (FileNotFoundException none) {
      return Map.of();
    }
  }

  FileSystem fileSystem() {
    return store;
  }

  Path path(String file) {
    return file.isEmpty() ? root : new Path(root, file);
  }

  static String newNonce() {
    return UUID.randomUUID().toString();
  }

  private Map<String, String> headers(Path file, String nonce) throws IOException {
    if (!isEntry(file, COMMITS)) {
      return Map.of(NONCE, nonce);
    }
    long number = LogEntries.number(file);
    Path offsets = new Path(file.getParent().getParent(), OFFSETS);
    LogEntries.Entry entry = LogEntries.of(offsets).get(number);
    String about = entry == null ? null : entry.nonce();
    about = about == null ? header(new Path(offsets, file.getName()), NONCE) : about;
    return about == null ? Map.of(NONCE, nonce) : Map.of(NONCE, nonce, OFFSETS_NONCE, about);
  }

  private static void written(Path file, byte[] content, Map<String, String> headers) {
    if (isEntry(file)) {
      long number = LogEntries.number(file);
      LogEntries.of(file.getParent()).written(number, content, headers.get(NONCE));
    }
  }

  private static boolean isEntry(Path file, String log) {
    return LogEntries.number(file) >= 0 && file.getParent().getName().equals(log);
  }

  /** Whether a file is an entry of a checkpoint's offsets or commits. */
  static boolean isEntry(Path file) {
    return isEntry(file, OFFSETS) || isEntry(file, COMMITS);
  }

  private static boolean isLog(Path folder) {
    return folder.getName().equals(OFFSETS) || folder.getName().equals(COMMITS);
  }

  /** In another thread, which nobody interrupts. */
  private static void write(Callable<Void> request) throws IOException {
    waitFor(REQUESTS.submit(request));
  }

  /**
   * Waits also if this thread is interrupted, as a query is that stops: so a batch that is done is
   * committed.
   */
  private static <T> T waitFor(Future<T> running) throws IOException {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return running.get();
        } catch (InterruptedException stopped) {
          interrupted = true;
        }
      }
    } catch (ExecutionException failed) {
      Throwable cause = failed.getCause();
      throw cause instanceof IOException known ? known : new IOException(cause);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Deletes a file that is not needed any more; one that stays does no harm. */
  void purge(Path file) {
    if (isEntry(file)) {
      LogEntries.of(file.getParent()).purged(LogEntries.number(file));
    }
    try {
      CheckpointLease.ensureHeld();
      delete(file);
    } catch (IOException error) {
      LOG.warn("{} was not deleted: {}", file, error.toString());
    }
  }
}
