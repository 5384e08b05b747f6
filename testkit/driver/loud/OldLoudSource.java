package loud;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.LongOffset;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A source and a sink by Spark's first interface, as those of some clouds are. */
public final class OldLoudSource implements StreamSourceProvider, StreamSinkProvider {
  private static final StructType SCHEMA = new StructType().add("value", "bigint");

  @Override
  public Tuple2<String, StructType> sourceSchema(
      SQLContext spark, Option<StructType> schema, String name, Map<String, String> options) {
    Loud.say("sourceSchema", CollectionConverters.asJava(options));
    return new Tuple2<>("loud", SCHEMA);
  }

  @Override
  public Source createSource(
      SQLContext spark,
      String path,
      Option<StructType> schema,
      String name,
      Map<String, String> options) {
    var given = CollectionConverters.asJava(options);
    // As Spark passes them to such a data source.
    if (!options.contains("HEARD") || given.containsKey("S0") != given.containsKey("s0")) {
      throw new IllegalStateException("the names of options have a case");
    }
    Loud.say("createSource", given);
    var session = (org.apache.spark.sql.classic.SparkSession) spark.sparkSession();
    return new Source() {
      private long offset;

      @Override
      public StructType schema() {
        return SCHEMA;
      }

      @Override
      public Option<Offset> getOffset() {
        Loud.say("getOffset", given);
        return Option.apply(new LongOffset(++offset));
      }

      @Override
      public Dataset<Row> getBatch(Option<Offset> start, Offset end) {
        Loud.say("getBatch", given);
        var rows = session.range(3).toDF("value").queryExecution().toRdd();
        return session.internalCreateDataFrame(rows, SCHEMA, true);
      }

      @Override
      public void stop() {}

      @Override
      public String toString() {
        return "loud " + given;
      }
    };
  }

  @Override
  public Sink createSink(
      SQLContext spark, Map<String, String> options, Seq<String> partitionBy, OutputMode mode) {
    var given = CollectionConverters.asJava(options);
    Loud.say("createSink", given);
    return new Sink() {
      @Override
      public void addBatch(long number, Dataset<Row> rows) {
        rows.queryExecution().toRdd().count();
        Loud.say("addBatch", given);
      }

      @Override
      public String toString() {
        return "loud " + given;
      }
    };
  }
}
