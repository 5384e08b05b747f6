package loud;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.streaming.sources.RateStreamProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's source of numbers, and loud. */
public final class LoudSource implements TableProvider, SessionConfigSupport {
  @Override
  public String keyPrefix() {
    return "loud";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    Loud.say("inferSchema", options.asCaseSensitiveMap());
    return RateStreamProvider.SCHEMA();
  }

  @Override
  public Table getTable(StructType schema, Transform[] none, Map<String, String> options) {
    var real = new RateStreamProvider().getTable(schema, none, options);
    return (Table) Loud.around(real, options);
  }
}
