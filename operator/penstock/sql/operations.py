"""Which operation each of Spark's engines takes: one table for the refusals and for the docs.

Spark 4.2's own verdicts, made by its UnsupportedOperationChecker when a query is started, and in
real-time mode by its list of allowed operators when the first batch is planned; the tests compare
each of them with Spark. An operation that only some queries may use is judged here by what is sure:
the rest is left to Spark's own analyser in the driver, since a wrong refusal would be worse than a
late one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.api.modes import Execution, Mode

TAKE_IT_OUT = "take it out of the query"


@dataclass(frozen=True)
class Operation:
    """A relational operation or an expression, by Spark's name for it."""

    name: str
    what: str
    taken_by: Callable[[Execution], bool]
    why: str = "Spark does not support it on streams"
    remedy: str = TAKE_IT_OUT


def _never(_: Execution) -> bool:
    return False


def _but_continuous(execution: Execution) -> bool:
    return execution.mode is not Mode.CONTINUOUS


def _without_shuffle(execution: Execution) -> bool:
    return execution.mode not in (Mode.CONTINUOUS, Mode.REAL_TIME)


def _aggregate(execution: Execution) -> bool:
    return execution.in_batches and (execution.output != "append" or execution.watermark)


def _timeless(execution: Execution) -> bool:
    return execution.in_batches and execution.output != "append"


def _session(execution: Execution) -> bool:
    return _aggregate(execution) and execution.output != "update"


def _chained(execution: Execution) -> bool:
    return execution.in_batches and execution.output == "append" and execution.watermark


def _limit(execution: Execution) -> bool:
    return execution.in_batches and execution.output != "update"


def _sort(execution: Execution) -> bool:
    return execution.in_batches and execution.output == "complete"


_NO_EVENT_TIME = (
    "without event time a group is never finished, so outputMode append would never write it"
)
_NO_KEY = "without an equality between the two streams Spark cannot keep their rows by key"

AGGREGATE = Operation("Aggregate", "an aggregate over event time", _aggregate, _NO_EVENT_TIME)
TIMELESS = Operation("Aggregate", "an aggregate", _timeless, _NO_EVENT_TIME)
DISTINCT_AGGREGATE = Operation(
    "Aggregate",
    "an aggregate over DISTINCT values",
    _never,
    "its state would have no end",
    "use approx_count_distinct",
)
CHAINED = Operation(
    "Aggregate",
    "an aggregate of an aggregate",
    _chained,
    "rows that come late to the second would be lost",
)
SESSION = Operation(
    "SessionWindow", "an aggregate by session", _session, "a session may still grow"
)
DISTINCT = Operation("Deduplicate", "DISTINCT over event time", _aggregate, _NO_EVENT_TIME)
TIMELESS_DISTINCT = Operation("Deduplicate", "DISTINCT", _timeless, _NO_EVENT_TIME)
PIVOT = Operation("Pivot", "PIVOT", _aggregate, _NO_EVENT_TIME)
UNPIVOT = Operation("Expand", "UNPIVOT", _but_continuous)
SLIDING = Operation("Expand", "a window of time that slides", _but_continuous)
NOT_GROUPED = Operation(
    "CompleteOutput",
    "outputMode complete without an aggregate",
    lambda execution: execution.output != "complete",
    "there would be no end of the rows to write again",
    "use outputMode append",
)
WINDOW = Operation("Window", "a window function (OVER)", _never, "only windows of time are finite")
JOIN = Operation(
    "Join",
    "a join of two streams",
    lambda execution: execution.in_batches and execution.output != "complete",
)
OUTER_JOIN = Operation(
    "Join",
    "an outer or semi join of two streams",
    _chained,
    "a row without a partner is only known to be one once a watermark has passed",
)
ANTI_JOIN = Operation("Join", "an anti join with a stream on its right", _never)
CROSS_JOIN = Operation("Join", "a join of two streams without a condition", _never, _NO_KEY)
STATIC_JOIN = Operation("Join", "a join with a table", _but_continuous)
STATIC_CROSS_JOIN = Operation("Join", "a cross join with a table", _without_shuffle)
WRONG_OUTER_JOIN = Operation(
    "Join",
    "an outer join that keeps the rows of the table",
    _never,
    "whether a row of the table has a partner in the stream is never known",
    "turn the join round",
)
# Real-time mode refuses a source that is read twice, and there is one source only.
UNION = Operation("Union", "UNION ALL", _without_shuffle)
STATIC_UNION = Operation("Union", "UNION of a stream and a table", _never)
DISTINCT_UNION = Operation("Union", "UNION, which removes duplicates", _aggregate, _NO_EVENT_TIME)
EXCEPT = Operation("Except", "EXCEPT with a stream on its right", _never)
STATIC_EXCEPT = Operation(
    "Except",
    "EXCEPT",
    lambda execution: _aggregate(execution) and execution.output != "complete",
    _NO_EVENT_TIME,
)
INTERSECT = Operation("Intersect", "INTERSECT", _never)
WITH = Operation("WithCTE", "a common table expression (WITH)", _but_continuous)
PIPE = Operation("PipeOperator", "the pipe syntax", _but_continuous)
LATERAL = Operation("LateralJoin", "a lateral subquery", _but_continuous)
LIMIT = Operation("Limit", "LIMIT", _limit, "rows that were written cannot be taken back")
OFFSET = Operation("Offset", "OFFSET", _never)
SORT = Operation("Sort", "an ordering", _sort, "only all rows together have an order")
REPARTITION = Operation("Repartition", "a redistribution of rows", _without_shuffle)
SAMPLE = Operation("Sample", "TABLESAMPLE", _never)
GENERATE = Operation("Generate", "a function that makes several rows of one", _but_continuous)
SCRIPT = Operation("ScriptTransformation", "SELECT TRANSFORM", _without_shuffle)
CURRENT_TIME = Operation("CurrentTime", "the current time or date", _but_continuous)
ROW_NUMBER = Operation(
    "MonotonicallyIncreasingID", "a number that depends on the partition", _never
)
STREAM_IN_SUBQUERY = Operation("Subquery", "a stream in a subquery expression", _never)
NO_STREAM = Operation(
    "NoStream",
    "a query that does not read `source`",
    _never,
    "it would end at once",
    "select from `source`",
)

# In the order of the reference.
OPERATIONS: tuple[Operation, ...] = (
    TIMELESS, AGGREGATE, SESSION, CHAINED, DISTINCT_AGGREGATE, TIMELESS_DISTINCT, DISTINCT, PIVOT,
    UNPIVOT, SLIDING, WINDOW, JOIN, OUTER_JOIN, ANTI_JOIN, CROSS_JOIN, STATIC_JOIN,
    STATIC_CROSS_JOIN, WRONG_OUTER_JOIN, UNION, DISTINCT_UNION, STATIC_UNION, EXCEPT, STATIC_EXCEPT,
    INTERSECT, WITH, PIPE, LATERAL, LIMIT, OFFSET, SORT, REPARTITION, SAMPLE, GENERATE, SCRIPT,
    CURRENT_TIME, ROW_NUMBER, STREAM_IN_SUBQUERY, NOT_GROUPED, NO_STREAM,
)  # fmt: skip

_WHY_BY_MODE = {
    Mode.CONTINUOUS: "the continuous engine runs projections and filters only",
    Mode.REAL_TIME: "real-time mode runs neither state nor a shuffle in Spark 4.2",
    Mode.ASYNC: "asynchronous progress tracking takes stateless queries only",
}


def why_not(operation: Operation, execution: Execution) -> str:
    """Why an engine does not take an operation that it does not take."""
    if any(operation.taken_by(Execution(Mode.MICRO_BATCH, o, True)) for o in _OUTPUTS):
        return _WHY_BY_MODE.get(execution.mode, operation.why)
    return operation.why


_OUTPUTS = ("append", "update", "complete")
