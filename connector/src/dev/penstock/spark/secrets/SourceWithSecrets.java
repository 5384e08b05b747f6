package dev.penstock.spark.secrets;

import dev.penstock.spark.Unchecked;
import java.util.Map;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.errors.QueryExecutionErrors;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads from a data source of somebody else that has secret options.
 *
 * <p>Spark asks a data source for a table, and if that is none to stream from, as a {@code
 * StreamSourceProvider} (DataStreamReader.load, 4.3).
 */
public final class SourceWithSecrets implements TableProvider, StreamSourceProvider {
  private SecretOptions secrets;
  private Object real;
  private boolean inferred;

  private void find(Map<String, String> options) {
    if (real == null) {
      secrets = SecretOptions.of(options);
      real = secrets.dataSource();
    }
  }

  /** Whether the other one takes a schema is known when it gets one. */
  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    find(options.asCaseSensitiveMap());
    inferred = true;
    return real instanceof TableProvider provider
        ? provider.inferSchema(secrets.resolved(options, provider))
        : new StructType();
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    find(options.asCaseSensitiveMap());
    return real instanceof TableProvider provider
        ? provider.inferPartitioning(secrets.resolved(options, provider))
        : new Transform[0];
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    find(properties);
    if (real instanceof TableProvider provider) {
      if (!inferred && !provider.supportsExternalMetadata()) {
        throw Unchecked.<RuntimeException>rethrow(
            QueryCompilationErrors.userSpecifiedSchemaUnsupportedError(secrets.format()));
      }
      var options = secrets.resolved(new CaseInsensitiveStringMap(properties), provider);
      Table table = provider.getTable(schema, partitioning, options.asCaseSensitiveMap());
      if (table instanceof SupportsRead && streams(table)) {
        return DataSourceProxy.of(table, provider, secrets);
      }
    }
    if (real instanceof StreamSourceProvider) {
      return new Unstreamed(secrets.format());
    }
    throw QueryExecutionErrors.streamedOperatorUnsupportedByDataSourceError(
        secrets.format(), "reading");
  }

  private static boolean streams(Table table) {
    return table.capabilities().contains(TableCapability.MICRO_BATCH_READ)
        || table.capabilities().contains(TableCapability.CONTINUOUS_READ);
  }

  /** Spark also asks for it beside a table that it streams from, and then does not use it. */
  @Override
  public Tuple2<String, StructType> sourceSchema(
      SQLContext context,
      Option<StructType> schema,
      String name,
      scala.collection.immutable.Map<String, String> parameters) {
    find(CollectionConverters.asJava(parameters));
    return real instanceof StreamSourceProvider provider
        ? provider.sourceSchema(context, schema, secrets.format(), secrets.resolved(parameters))
        : new Tuple2<>(secrets.format(), new StructType());
  }

  @Override
  public Source createSource(
      SQLContext context,
      String metadataPath,
      Option<StructType> schema,
      String name,
      scala.collection.immutable.Map<String, String> parameters) {
    find(CollectionConverters.asJava(parameters));
    if (!(real instanceof StreamSourceProvider provider)) { // its table has no micro-batches
      throw QueryExecutionErrors.microBatchUnsupportedByDataSourceError(
          secrets.format(), "", new Unstreamed(secrets.format()));
    }
    var options = secrets.resolved(parameters);
    Source source =
        provider.createSource(context, metadataPath, schema, secrets.format(), options);
    return DataSourceProxy.of(source, null, secrets);
  }
}
