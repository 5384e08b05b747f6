package dev.penstock.spark.jdbc;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source {@code penstock-jdbc}, which streams write tables with. Its options {@code
 * database} and {@code target} are the records of these names, as JSON.
 */
public final class JdbcProvider implements TableProvider, DataSourceRegister {
  static final String NAME = "penstock-jdbc";
  private static final ObjectMapper JSON = new ObjectMapper();

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new JdbcTable(schema);
  }

  static <T> T read(String json, Class<T> type) {
    try {
      return JSON.readValue(json, type);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException("not the JSON of a " + type.getSimpleName(), error);
    }
  }

  private record JdbcTable(StructType schema) implements SupportsWrite {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      var database = read(info.options().get("database"), Database.class);
      var target = read(info.options().get("target"), Target.class);
      return new Builder(new JdbcStreamWrite(database, target, info.schema()));
    }
  }

  /** In update mode a changed row is one more row, or replaces that of its keys. */
  private record Builder(StreamingWrite made)
      implements WriteBuilder, SupportsStreamingUpdateAsAppend {
    @Override
    public Write build() {
      return new Write() {
        @Override
        public StreamingWrite toStreaming() {
          return made;
        }
      };
    }
  }
}
