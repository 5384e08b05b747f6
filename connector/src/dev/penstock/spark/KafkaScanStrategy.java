package dev.penstock.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.DeserializeToObject;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapElements;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.ResolvedHint;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.TypedFilter;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.continuous.WriteToContinuousDataSource;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.List$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Plans the scan of a continuous query as a {@link KafkaRdd}, and tells each write in transactions
 * what it writes of.
 */
final class KafkaScanStrategy extends SparkStrategy {
  private static final long serialVersionUID = 1;
  private static final KafkaScanStrategy INSTANCE = new KafkaScanStrategy();
  /** What passes the rows of one record on before it takes the next one; Python's do not. */
  private static final Set<Class<?>> ONE_BY_ONE =
      Set.of(
          Project.class,
          Filter.class,
          DeserializeToObject.class,
          MapElements.class,
          SerializeFromObject.class,
          TypedFilter.class,
          EventTimeWatermark.class,
          Expand.class,
          Generate.class,
          Join.class,
          ResolvedHint.class,
          StreamingDataSourceV2ScanRelation.class);

  private KafkaScanStrategy() {}

  /**
   * Adds the strategy to the session of this thread. Spark asks a source for offsets in the query's
   * own session, a copy, right before it plans; at any earlier moment the session may be another one.
   */
  static void install() {
    var session = SparkSession.getActiveSession();
    if (session.isDefined()) {
      var methods = session.get().experimental();
      List<SparkStrategy> strategies = new ArrayList<>(List.of(INSTANCE));
      strategies.addAll(CollectionConverters.asJava(methods.extraStrategies()));
      if (strategies.lastIndexOf(INSTANCE) == 0) {
        methods.extraStrategies_$eq(scalaSeq(strategies));
      }
    }
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (plan instanceof WriteToContinuousDataSource whole
        && whole.write() instanceof KafkaStreamWrite write) {
      bind(write, whole.query());
    } else if (plan instanceof WriteToDataSourceV2 whole
        && whole.batchWrite() instanceof MicroBatchWrite batch
        && batch.writeSupport() instanceof KafkaStreamWrite write) {
      bindBatch(write, whole.query());
    }
    // As DataSourceV2Strategy: it would take the relation together with what is above it.
    var found = PhysicalOperation.unapply(plan);
    if (found.isEmpty()
        || !(found.get()._3() instanceof StreamingDataSourceV2ScanRelation relation)
        || !(relation.stream() instanceof KafkaStream stream)
        || relation.startOffset().isEmpty()) {
      return seq(Nil$.MODULE$);
    }
    var inputs = stream.planInputPartitions(relation.startOffset().get());
    long epochPollMs = SQLConf.get().continuousStreamingExecutorPollIntervalMs();
    RDDScanExec scan =
        new RDDScanExec(
            KafkaScanStrategy.<Attribute>seq(relation.output()),
            new KafkaRdd(
                SparkContext.getOrCreate(),
                inputs,
                stream.transactions(),
                stream.leftOut(),
                epochPollMs),
            KafkaProvider.NAME,
            new UnknownPartitioning(0),
            seq(Nil$.MODULE$),
            Option.apply(stream));
    Seq<NamedExpression> columns = seq(found.get()._1());
    Seq<Expression> filters = seq(found.get()._2());
    SparkPlan planned =
        DataSourceV2Strategy$.MODULE$.withProjectAndFilter(columns, filters, scan, false);
    return scalaSeq(List.of(planned));
  }

  /** The write's node is planned before the scan below it. */
  private static void bind(KafkaStreamWrite write, LogicalPlan query) {
    LogicalPlan at = query;
    while (at instanceof UnaryNode node) {
      at = node.child();
    }
    if (at instanceof StreamingDataSourceV2ScanRelation relation
        && relation.stream() instanceof KafkaStream stream) {
      write.bind(stream, readsAhead(query));
    }
  }

  /** Whether a task may read a record before it has passed on all rows of those before. */
  private static boolean readsAhead(LogicalPlan at) {
    return ONE_BY_ONE.stream().noneMatch(type -> type.isInstance(at))
        || CollectionConverters.asJava(at.children()).stream()
            .filter(LogicalPlan::isStreaming)
            .anyMatch(KafkaScanStrategy::readsAhead);
  }

  private static void bindBatch(KafkaStreamWrite write, LogicalPlan query) {
    List<LogicalPlan> leaves = CollectionConverters.asJava(query.collectLeaves());
    var streams =
        leaves.stream()
            .filter(StreamingDataSourceV2ScanRelation.class::isInstance)
            .map(leaf -> ((StreamingDataSourceV2ScanRelation) leaf).stream())
            .toList();
    if (streams.size() == 1 && streams.get(0) instanceof KafkaBatchStream stream) {
      write.bind(stream, readsAhead(query));
    }
  }

  private static <T> Seq<T> scalaSeq(List<T> list) {
    return List$.MODULE$.from(CollectionConverters.asScala(list));
  }

  /** Scala's sequences are covariant. */
  @SuppressWarnings("unchecked")
  static <T> Seq<T> seq(Object scala) {
    return (Seq<T>) scala;
  }
}
