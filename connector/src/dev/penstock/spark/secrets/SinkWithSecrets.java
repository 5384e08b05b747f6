package dev.penstock.spark.secrets;

import java.util.Map;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.errors.QueryExecutionErrors;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Writes to a data source of somebody else that has secret options: to its table, or if that is none
 * to stream to, as a {@code StreamSinkProvider} (DataStreamWriter.start, 4.3).
 */
public final class SinkWithSecrets implements TableProvider, StreamSinkProvider {
  /** So the query's columns come with {@code getTable}. */
  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(StructType schema, Transform[] none, Map<String, String> properties) {
    SecretOptions secrets = SecretOptions.of(properties);
    Object real = secrets.dataSource();
    if (real instanceof TableProvider provider) {
      var options = secrets.resolved(new CaseInsensitiveStringMap(properties), provider);
      StructType columns =
          provider.supportsExternalMetadata() ? schema : provider.inferSchema(options);
      Transform[] partitioning = provider.inferPartitioning(options);
      Table table = provider.getTable(columns, partitioning, options.asCaseSensitiveMap());
      if (table instanceof SupportsWrite
          && table.capabilities().contains(TableCapability.STREAMING_WRITE)) {
        return DataSourceProxy.of(table, provider, secrets);
      }
    }
    if (real instanceof StreamSinkProvider) {
      return new Unstreamed(secrets.format());
    }
    throw QueryExecutionErrors.streamedOperatorUnsupportedByDataSourceError(
        secrets.format(), "writing");
  }

  @Override
  public Sink createSink(
      SQLContext context,
      scala.collection.immutable.Map<String, String> parameters,
      Seq<String> partitionColumns,
      OutputMode outputMode) {
    SecretOptions secrets = SecretOptions.of(CollectionConverters.asJava(parameters));
    var provider = (StreamSinkProvider) secrets.dataSource();
    var options = secrets.resolved(parameters);
    Sink sink = provider.createSink(context, options, partitionColumns, outputMode);
    return DataSourceProxy.of(sink, null, secrets);
  }
}
