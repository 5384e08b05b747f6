package dev.penstock.examples;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ContinuousPartitionReader;
import org.apache.spark.sql.connector.read.streaming.ContinuousPartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.ContinuousStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Lines of text from a TCP server, for Spark's continuous mode: what `nc -lk 9999` is typed into.
 *
 * <p>One partition, so one task and one core: `numPartitions: 1` in the spec. The offset counts
 * lines. A server that only sends cannot be asked to send again, so after a restart what was under
 * way is lost; a real source would seek to the offset that it is given.
 */
public class NetcatSource implements TableProvider {
  private static final StructType SCHEMA = StructType.fromDDL("line STRING");

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] by, Map<String, String> properties) {
    return new NetcatTable();
  }

  private static final class NetcatTable implements SupportsRead {
    @Override
    public String name() {
      return "netcat";
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.CONTINUOUS_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      String host = options.get("host");
      int port = options.getInt("port", 9999);
      return () ->
          new Scan() {
            @Override
            public StructType readSchema() {
              return SCHEMA;
            }

            @Override
            public ContinuousStream toContinuousStream(String checkpoint) {
              return new NetcatStream(host, port);
            }
          };
    }
  }

  /** How many lines have been read: the offset of the stream and of its one partition. */
  private static final class Lines extends Offset implements PartitionOffset {
    final long read;

    Lines(long read) {
      this.read = read;
    }

    @Override
    public String json() {
      return Long.toString(read);
    }
  }

  private record Server(String host, int port, long read) implements InputPartition {}

  private record NetcatStream(String host, int port) implements ContinuousStream {
    @Override
    public Offset initialOffset() {
      return new Lines(0);
    }

    @Override
    public Offset deserializeOffset(String json) {
      return new Lines(Long.parseLong(json));
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start) {
      return new InputPartition[] {new Server(host, port, ((Lines) start).read)};
    }

    @Override
    public ContinuousPartitionReaderFactory createContinuousReaderFactory() {
      return new Readers();
    }

    @Override
    public Offset mergeOffsets(PartitionOffset[] offsets) {
      return (Lines) offsets[0];
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
  }

  private static final class Readers implements ContinuousPartitionReaderFactory {
    @Override
    public ContinuousPartitionReader<InternalRow> createReader(InputPartition partition) {
      return new Reader((Server) partition);
    }
  }

  private static final class Reader implements ContinuousPartitionReader<InternalRow> {
    private final Socket socket;
    private final BufferedReader lines;
    private long read;
    private String line;

    Reader(Server server) {
      try {
        socket = new Socket(server.host(), server.port());
        lines =
            new BufferedReader(
                new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
      } catch (IOException error) {
        throw new java.io.UncheckedIOException(error);
      }
      read = server.read();
    }

    /** Blocks until there is a line: a continuous reader has no end, so an end is an error. */
    @Override
    public boolean next() throws IOException {
      line = lines.readLine();
      if (line == null) {
        throw new IOException("the server has closed the connection");
      }
      read++;
      return true;
    }

    @Override
    public InternalRow get() {
      return new GenericInternalRow(new Object[] {UTF8String.fromString(line)});
    }

    @Override
    public PartitionOffset getOffset() {
      return new Lines(read);
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }
}
