package dev.penstock.spark.driver;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells the driver what a query is made of (driver/spark/replays.py), in one call: a plan may have
 * tens of thousands of expressions.
 */
public final class PlanReader {
  private final List<Map<String, Object>> operators = new ArrayList<>();
  /** What the query has named in WITH, by its id, and where it is in the list. */
  private final Map<Long, LogicalPlan> named = new HashMap<>();

  private final Map<Long, Integer> placed = new HashMap<>();

  private PlanReader() {}

  /**
   * The operators, each after its children, as JSON: an operator has the places of its children in
   * the list, and an expression of each class in it.
   */
  public static String read(LogicalPlan plan) {
    PlanReader reader = new PlanReader();
    reader.place(plan);
    return KafkaAdmin.write(reader.operators);
  }

  private int place(LogicalPlan plan) {
    if (plan instanceof WithCTE with) {
      for (CTERelationDef definition : CollectionConverters.asJava(with.cteDefs())) {
        named.put(definition.id(), definition.child());
      }
      return place(with.plan());
    }
    if (plan instanceof CTERelationRef reference) {
      Integer known = placed.get(reference.cteId());
      int place = known == null ? place(named.get(reference.cteId())) : known;
      placed.put(reference.cteId(), place);
      return place;
    }
    List<Integer> children =
        CollectionConverters.asJava(plan.children()).stream().map(this::place).toList();
    Map<String, Map<String, Object>> expressions = new TreeMap<>();
    addAll(plan, expressions);
    operators.add(
        Map.of(
            "name", plan.getClass().getSimpleName(),
            "isStreaming", plan.isStreaming(),
            "isOfOneGroup",
                plan instanceof Aggregate all
                    && CollectionConverters.asJava(all.groupingExpressions()).isEmpty(),
            "expressions", expressions,
            "children", children));
    return operators.size() - 1;
  }

  private static void addAll(LogicalPlan plan, Map<String, Map<String, Object>> found) {
    CollectionConverters.asJava(plan.expressions()).forEach(each -> add(each, found));
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
    if (expression instanceof PlanExpression<?> subquery
        && subquery.plan() instanceof LogicalPlan plan) {
      addWithChildren(plan, found);
    }
  }

  private static void addWithChildren(LogicalPlan plan, Map<String, Map<String, Object>> found) {
    addAll(plan, found);
    CollectionConverters.asJava(plan.children()).forEach(child -> addWithChildren(child, found));
  }
}
