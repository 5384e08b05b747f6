package dev.penstock.spark.checkpoint;

import dev.penstock.spark.Unchecked;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Writes the files of a checkpoint in an object store: an entry of a log in one request, and state
 * as a stream. Elsewhere, where a sink may have its log, Spark's default writes.
 *
 * <p>Spark's own managers check and then copy, so that of two writers both succeed.
 */
public final class ObjectStoreCheckpointFileManager implements CheckpointFileManager {
  /** The setting with the checkpoints' location. */
  private static final String LOCATION = "penstock.checkpoint.location";

  private final Path root;
  private final ObjectStore store;
  private final CheckpointFileManager elsewhere;

  public ObjectStoreCheckpointFileManager(Path path, Configuration conf) throws IOException {
    root = path;
    boolean isOurs = (path + "/").startsWith(conf.getTrimmed(LOCATION) + "/");
    store = isOurs ? new ObjectStore(path.toString(), conf) : null;
    elsewhere = isOurs ? null : DurableCheckpointFileManager.ofSpark(path, conf);
  }

  @Override
  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(
      Path path, boolean overwriteIfPossible) {
    if (elsewhere != null) {
      return elsewhere.createAtomic(path, overwriteIfPossible);
    }
    try {
      return overwriteIfPossible ? new Streamed(path) : new Buffered(path);
    } catch (IOException error) {
      throw Unchecked.<RuntimeException>rethrow(error);
    }
  }

  @Override
  public FSDataInputStream open(Path path) {
    if (elsewhere != null) {
      return elsewhere.open(path);
    }
    try {
      return store.fileSystem().open(path);
    } catch (IOException error) {
      throw Unchecked.<RuntimeException>rethrow(error);
    }
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    if (elsewhere != null) {
      return elsewhere.list(path, filter);
    }
    try {
      return store.list(path).stream()
          .filter(file -> filter.accept(file.getPath()))
          .toArray(FileStatus[]::new);
    } catch (IOException error) {
      throw Unchecked.<RuntimeException>rethrow(error);
    }
  }

  /** A folder is there with its first file. */
  @Override
  public void mkdirs(Path path) {
    if (elsewhere != null) {
      elsewhere.mkdirs(path);
    }
  }

  /** Spark asks before each entry of a log; for one that is new, the PUT itself asks. */
  @Override
  public boolean exists(Path path) {
    if (elsewhere != null) {
      return elsewhere.exists(path);
    }
    if (ObjectStore.isEntry(path) && LogEntries.of(path.getParent()).lacks(LogEntries.number(path))) {
      return false;
    }
    try {
      return store.fileSystem().exists(path);
    } catch (IOException error) {
      throw Unchecked.<RuntimeException>rethrow(error);
    }
  }

  /**
   * Entries that stay do no harm, and the continuous engine purges where it commits: an exception
   * would end that for good.
   */
  @Override
  public void delete(Path path) {
    if (elsewhere != null) {
      elsewhere.delete(path);
    } else if (ObjectStore.isEntry(path)) {
      store.purge(path);
    } else {
      try {
        store.fileSystem().delete(path, true);
      } catch (FileNotFoundException gone) {
        return;
      } catch (IOException error) {
        throw Unchecked.<RuntimeException>rethrow(error);
      }
    }
  }

  @Override
  public boolean isLocal() {
    return elsewhere != null && elsewhere.isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    return elsewhere == null
        ? store.fileSystem().makeQualified(root)
        : elsewhere.createCheckpointDirectory();
  }

  /** A file that must be new, of some hundred bytes: kept, so that its PUT can be repeated. */
  private final class Buffered extends CheckpointFileManager.CancellableFSDataOutputStream {
    private final Path path;
    private boolean done;

    Buffered(Path path) {
      super(new ByteArrayOutputStream());
      this.path = path;
    }

    @Override
    public void cancel() {
      done = true;
    }

    @Override
    public void close() {
      if (done) {
        return;
      }
      done = true;
      try {
        store.create(path, ((ByteArrayOutputStream) underlyingStream()).toByteArray());
      } catch (IOException error) {
        throw FailedWrite.of(path, error);
      }
    }
  }

  /** State, which may be large, and which another attempt of a task may write again. */
  private final class Streamed extends CheckpointFileManager.CancellableFSDataOutputStream {
    private boolean done;

    Streamed(Path path) throws IOException {
      super(store.replace(path));
    }

    @Override
    public void cancel() {
      if (!done) {
        done = true;
        FSDataOutputStream stream = (FSDataOutputStream) underlyingStream();
        stream.abort();
      }
    }

    @Override
    public void close() throws IOException {
      if (!done) {
        done = true;
        underlyingStream().close();
      }
    }
  }
}
