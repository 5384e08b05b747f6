"""Whether a batch with state that runs again makes the same rows in the same tasks, as far as its
plan shows. Pure.

A task writes the rows of one partition of the state, so nothing may hand them to other tasks above
it. Tried with batches that were killed and ran again (docs/guarantees.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, frozen=True)


class ExpressionFact(_Model):
    """One expression of a class."""

    text: str
    is_deterministic: bool


class Operator(_Model):
    """An operator of Spark's logical plan, as PlanReader.java tells it."""

    name: str
    is_streaming: bool
    is_of_one_group: bool
    """It aggregates all records, in one task."""
    expressions: dict[str, ExpressionFact]
    """By the name of the class."""
    children: list[int]
    """Their places in the plan."""


Plan = Sequence[Operator]
"""Each operator after its children, so that the uppermost one is the last."""
PLAN: TypeAdapter[list[Operator]] = TypeAdapter(list[Operator])


# What leaves each row with its task.
_NARROW = frozenset(
    {
        "CollectMetrics", "DeserializeToObject", "EventTimeWatermark", "Expand",
        "Filter", "Generate", "MapElements", "MapInArrow", "MapInPandas",
        "MapPartitions", "Project", "PythonMapInArrow", "ResolvedHint", "SerializeFromObject",
        "SubqueryAlias", "TypedFilter", "UpdateEventTimeWatermarkColumn", "View",
    }
)  # fmt: skip
# What takes records, or hands them to tasks, in the order in which they happen to come.
_BY_ORDER = {
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Offset": "OFFSET",
    "Repartition": "a repartition or coalesce without columns",
    "Sample": "a sample",
    "Tail": "tail",
}
# Expressions whose result goes by that order, of which Spark says that they are deterministic.
_VALUE_BY_ORDER = frozenset(
    {"AnyValue", "CollectList", "CollectSet", "First", "Last", "ListAgg", "Mode"}
)
# Their time is that of the attempt; MicroBatchExecution sets those of current_timestamp() only.
_TIME_OF_ATTEMPT = frozenset({"CurrentTime", "Now"})
_OWN_OPERATORS = frozenset(
    {
        "AppendColumns", "AppendColumnsWithObject", "CoGroup", "FlatMapCoGroupsInArrow",
        "FlatMapCoGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapGroupsInPandas",
        "FlatMapGroupsInPandasWithState", "FlatMapGroupsInR", "FlatMapGroupsInRWithArrow",
        "FlatMapGroupsWithState", "MapElements", "MapGroups", "MapInArrow", "MapInPandas",
        "MapPartitions", "MapPartitionsExternalUDF", "MapPartitionsInR",
        "MapPartitionsInRWithArrow", "PythonMapInArrow", "ScriptTransformation",
        "TransformWithState", "TransformWithStateInPySpark", "TypedFilter",
    }
)  # fmt: skip
_OWN_EXPRESSIONS = frozenset(
    {
        "ApplyFunctionExpression", "ComplexTypedAggregateExpression", "HiveGenericUDF",
        "HiveSimpleUDF", "PythonUDAF", "PythonUDF", "PythonUDTF", "ScalaAggregator", "ScalaUDAF",
        "ScalaUDF", "SimpleTypedAggregateExpression", "V2Aggregator",
    }
)  # fmt: skip
_AGAIN = "A batch that runs again has to make the same rows, and this query may make others"


def find_problem(plan: Plan, stateful: frozenset[str], *, is_promised: bool) -> str | None:
    """Why the batches of this query might make other rows when they run again; None if not.

    `stateful`: the names of operators that keep state. `is_promised`: transform.deterministic.
    """
    top = _top(plan)
    if not _keeps_state(top, plan, stateful):
        return (
            f"A task has to write the rows of its part of the state, and {top.name} above it hands "
            "them to other tasks: do it before the aggregate, join or deduplication, or in another "
            "stream."
        )
    own: str | None = None
    for operator in plan:
        if operator.is_streaming and (kind := _order(operator)) is not None:
            return f"{_AGAIN}: it has {kind}, which goes by the order of the records."
        if operator.name in _OWN_OPERATORS:
            own = own or operator.name
        for name, expression in operator.expressions.items():
            if name in _TIME_OF_ATTEMPT:
                return f"{_AGAIN}: {expression.text} is the time of an attempt. Use {_BATCH_TIME}."
            if operator.is_streaming and name in _VALUE_BY_ORDER:
                return (
                    f"{_AGAIN}: {expression.text} goes by the order of the records. max_by and "
                    "min_by go by a column."
                )
            if name in _OWN_EXPRESSIONS:
                own = own or expression.text
            elif not expression.is_deterministic:
                return f"{_AGAIN}: {expression.text} gives another result each time."
    if own is None or is_promised:
        return None
    return (
        f"{_AGAIN}: it calls a function of your own ({own}), which only you know. If it gives the "
        "same result for the same input, in whatever order the records of a key come, set "
        "transform.deterministic to true."
    )


_BATCH_TIME = "current_timestamp(), which is that of the batch"


def writing_tasks(plan: Plan, state_partitions: int) -> int:
    """How many tasks write a batch of a query without such a problem."""
    return 1 if _top(plan).is_of_one_group else state_partitions


def _top(plan: Plan) -> Operator:
    """The uppermost operator that may hand rows to other tasks."""
    at = plan[-1]
    while at.name in _NARROW:
        at = plan[at.children[0]]
    return at


def _keeps_state(operator: Operator, plan: Plan, stateful: frozenset[str]) -> bool:
    if operator.name == "Join":
        return all(plan[child].is_streaming for child in operator.children)
    return operator.is_streaming and operator.name in stateful


def _order(operator: Operator) -> str | None:
    by_columns = ("RebalancePartitions", "RepartitionByExpression")
    if operator.name in by_columns and not operator.expressions:
        return _BY_ORDER["Repartition"]
    return _BY_ORDER.get(operator.name)
