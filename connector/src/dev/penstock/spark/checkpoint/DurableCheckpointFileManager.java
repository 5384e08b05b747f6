package dev.penstock.spark.checkpoint;

import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Writes the files of a checkpoint on a volume so that they survive a power cut: Spark goes on when
 * a file and the entry in its folder are on the disk.
 *
 * <p>Spark's own managers sync nothing, rename a file and its checksum in two steps, and start a
 * program for each change of permissions. Here a file has no checksum; those of Spark's are read
 * and deleted with their files, so that a checkpoint continues with either. Elsewhere than on a
 * volume, where a sink may have its log, files are written as Spark's default does.
 */
public final class DurableCheckpointFileManager extends FileSystemBasedCheckpointFileManager {
  private final org.apache.hadoop.fs.Path root;
  private final Configuration conf;

  public DurableCheckpointFileManager(org.apache.hadoop.fs.Path path, Configuration conf) {
    super(path, conf);
    root = path;
    this.conf = conf;
  }

  @Override
  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(
      org.apache.hadoop.fs.Path path, boolean overwriteIfPossible) {
    if (isLocal()) {
      return super.createAtomic(path, overwriteIfPossible);
    }
    return ofSpark(root, conf).createAtomic(path, overwriteIfPossible);
  }

  /** Spark's default, for what is no checkpoint of ours. */
  static CheckpointFileManager ofSpark(org.apache.hadoop.fs.Path root, Configuration conf) {
    Configuration sparks = new Configuration(conf);
    sparks.unset(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS().parent().key());
    return CheckpointFileManager$.MODULE$.create(root, sparks);
  }

  @Override
  public FSDataOutputStream createTempFile(org.apache.hadoop.fs.Path path) {
    Path draft = local(path);
    try {
      return new FSDataOutputStream(new BufferedOutputStream(new SyncedFile(draft)), null);
    } catch (IOException error) {
      throw FailedWrite.of(draft, error);
    }
  }

  @Override
  public void renameTempFile(
      org.apache.hadoop.fs.Path from, org.apache.hadoop.fs.Path to, boolean overwriteIfPossible) {
    Path draft = local(from);
    Path file = local(to);
    try {
      // It would not fit the new contents.
      Files.deleteIfExists(file.resolveSibling("." + file.getFileName() + ".crc"));
      if (overwriteIfPossible) {
        Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
      } else {
        moveToFree(draft, file);
      }
      sync(file.getParent());
    } catch (FileAlreadyExistsException exists) {
      throw FailedWrite.of(file, new org.apache.hadoop.fs.FileAlreadyExistsException(file.toString()));
    } catch (IOException error) {
      throw FailedWrite.of(file, error);
    }
  }

  @Override
  public void mkdirs(org.apache.hadoop.fs.Path path) {
    if (!isLocal()) {
      super.mkdirs(path);
      return;
    }
    Path folder = local(path).toAbsolutePath();
    try {
      makeFolder(folder);
    } catch (IOException error) {
      throw FailedWrite.of(folder, error);
    }
  }

  @Override
  public org.apache.hadoop.fs.Path createCheckpointDirectory() {
    mkdirs(root);
    return fs().makeQualified(root);
  }

  /** Of two who make the same file, one succeeds. */
  private static void moveToFree(Path draft, Path file) throws IOException {
    try {
      Files.createLink(file, draft);
    } catch (FileAlreadyExistsException exists) {
      throw exists;
    } catch (UnsupportedOperationException | FileSystemException noLinks) {
      if (Files.exists(file)) {
        throw new FileAlreadyExistsException(file.toString());
      }
      Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
      return;
    }
    Files.delete(draft);
  }

  private static void makeFolder(Path folder) throws IOException {
    if (!Files.isDirectory(folder)) {
      makeFolder(folder.getParent());
      Files.createDirectories(folder);
      sync(folder.getParent());
    }
  }

  /** The entries of a folder. A query that is stopped interrupts its thread: it shall still end. */
  private static void sync(Path folder) throws IOException {
    boolean interrupted = false;
    for (boolean synced = false; !synced; ) {
      try (FileChannel entries = FileChannel.open(folder, StandardOpenOption.READ)) {
        entries.force(true);
        synced = true;
      } catch (ClosedByInterruptException stopped) {
        interrupted = Thread.interrupted();
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static Path local(org.apache.hadoop.fs.Path path) {
    return Path.of(path.toUri().getPath());
  }

  /** A new file, which is on the disk when it is closed. An interrupted thread writes it too. */
  private static final class SyncedFile extends OutputStream {
    private final Path path;
    private final FileOutputStream file;

    SyncedFile(Path path) throws IOException {
      this.path = path;
      file = new FileOutputStream(path.toFile());
    }

    @Override
    public void write(int value) {
      write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int start, int length) {
      try {
        file.write(bytes, start, length);
      } catch (IOException error) {
        throw FailedWrite.of(path, error);
      }
    }

    @Override
    public void close() {
      try (file) {
        file.getFD().sync();
      } catch (IOException error) {
        throw FailedWrite.of(path, error);
      }
    }
  }
}
