package dev.penstock.spark.driver;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells the driver what a query is made of (driver/spark/replays.py), in one call: a plan may have
 * tens of thousands of expressions.
 */
public final class PlanReader {
  private PlanReader() {}

  /** The operator with those below it, and an expression of each class in it, as JSON. */
  public static String read(LogicalPlan plan) {
    return KafkaAdmin.write(operator(plan, new HashMap<>()));
  }

  /** {@code named}: what the query has named in WITH, by its id. */
  private static Map<String, Object> operator(LogicalPlan plan, Map<Long, LogicalPlan> named) {
    if (plan instanceof WithCTE with) {
      CollectionConverters.asJava(with.cteDefs()).forEach(def -> named.put(def.id(), def.child()));
      return operator(with.plan(), named);
    }
    if (plan instanceof CTERelationRef reference) {
      return operator(named.get(reference.cteId()), named);
    }
    Map<String, Map<String, Object>> expressions = new TreeMap<>();
    CollectionConverters.asJava(plan.expressions()).forEach(each -> add(each, expressions));
    List<Map<String, Object>> children =
        CollectionConverters.asJava(plan.children()).stream()
            .map(child -> operator(child, named))
            .toList();
    return Map.of(
        "name", plan.getClass().getSimpleName(),
        "isStreaming", plan.isStreaming(),
        "isOfOneGroup",
            plan instanceof Aggregate all
                && CollectionConverters.asJava(all.groupingExpressions()).isEmpty(),
        "expressions", expressions,
        "children", children);
  }

  private static void add(Expression expression, Map<String, Map<String, Object>> found) {
    List<Expression> children = CollectionConverters.asJava(expression.children());
    // The innermost one that makes all around it so.
    boolean isRandom =
        !expression.deterministic() && children.stream().allMatch(Expression::deterministic);
    String name = expression.getClass().getSimpleName();
    if (isRandom || !found.containsKey(name)) {
      found.put(name, Map.of("text", expression.sql(), "isDeterministic", !isRandom));
    }
    children.forEach(child -> add(child, found));
  }
}
