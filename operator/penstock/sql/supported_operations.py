"""The operations that each mode of Spark supports: one table for refusals and documentation.

The verdicts are those of Spark 4.3: of its UnsupportedOperationChecker at the start of a query, and
in real-time mode of its list of allowed operators when the first batch is planned. A test compares
them all with Spark. If Spark supports an operation in some queries only, it is refused here only
where that is certain. The rest is left to Spark's analyzer in the driver, since a wrong refusal
would be worse than a late one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.api.modes import Execution, Mode

REMOVE_IT = "remove it from the query"


@dataclass(frozen=True)
class Operation:
    """A relational operation or an expression."""

    name: str
    """Spark's name for it."""
    description: str
    supported_by: Callable[[Execution], bool]
    reason: str = "Spark does not support it on streams"
    remedy: str = REMOVE_IT
    reason_in_continuous: str = "the continuous engine runs projections and filters only"


def _never(_: Execution) -> bool:
    return False


def _not_continuous(execution: Execution) -> bool:
    return execution.mode is not Mode.CONTINUOUS


def _tasks_take_turns(execution: Execution) -> bool:
    return not execution.mode.has_long_running_tasks


def _aggregate(execution: Execution) -> bool:
    return execution.may_keep_state and (execution.output_mode != "append" or execution.watermark)


def _aggregate_without_event_time(execution: Execution) -> bool:
    return execution.may_keep_state and execution.output_mode != "append"


# Real-time mode refuses to read a source twice, and a stream has one source only.
def _union_aggregate(execution: Execution) -> bool:
    return execution.in_batches and _aggregate(execution)


def _union_aggregate_without_event_time(execution: Execution) -> bool:
    return execution.in_batches and _aggregate_without_event_time(execution)


def _session_aggregate(execution: Execution) -> bool:
    return _aggregate(execution) and execution.output_mode != "update"


def _append_with_watermark(execution: Execution) -> bool:
    return execution.in_batches and execution.output_mode == "append" and execution.watermark


def _watermark_not_complete(execution: Execution) -> bool:
    return execution.in_batches and execution.output_mode != "complete" and execution.watermark


def _limit(execution: Execution) -> bool:
    return execution.in_batches and execution.output_mode != "update"


def _sort(execution: Execution) -> bool:
    return execution.in_batches and execution.output_mode == "complete"


_NO_EVENT_TIME = "without event time a group never ends, so outputMode append would never write it"
_NO_MATCH = "only a watermark tells that a row has no match"
_NO_KEY = "without an equality condition Spark cannot store the rows of the two streams by key"

AGGREGATE = Operation("Aggregate", "an aggregate over event time", _aggregate, _NO_EVENT_TIME)
AGGREGATE_WITHOUT_EVENT_TIME = Operation(
    "Aggregate", "an aggregate", _aggregate_without_event_time, _NO_EVENT_TIME
)
DISTINCT_AGGREGATE = Operation(
    "Aggregate",
    "an aggregate over DISTINCT values",
    _never,
    "its state would grow without bound",
    "use approx_count_distinct",
)
# UnsupportedOperationChecker.checkStreamingQueryGlobalWatermarkLimit
STATE_AFTER_AGGREGATE = Operation(
    "StatefulOperation",
    "an aggregate, DISTINCT or join of streams over the rows of an aggregate or DISTINCT",
    _append_with_watermark,
    "rows that reach the second operation late would be lost",
)
SESSION_AGGREGATE = Operation(
    "SessionWindow",
    "an aggregate over a session window",
    _session_aggregate,
    "a session can still grow",
)
DISTINCT = Operation("Deduplicate", "DISTINCT over event time", _aggregate, _NO_EVENT_TIME)
DISTINCT_WITHOUT_EVENT_TIME = Operation(
    "Deduplicate", "DISTINCT", _aggregate_without_event_time, _NO_EVENT_TIME
)
PIVOT = Operation("Pivot", "PIVOT", _aggregate, _NO_EVENT_TIME)
# Spark makes two aggregates of it, one over the rows of the other (ResolvePivot, PivotFirst).
PIVOT_OF_COUNTS = Operation(
    "Pivot",
    "PIVOT of numbers or booleans",
    _append_with_watermark,
    "Spark makes two aggregates of it, and rows that reach the second one late would be lost",
    "use an aggregate with a CASE for each column",
)
UNPIVOT = Operation("Expand", "UNPIVOT", _not_continuous)
SLIDING_WINDOW = Operation("Expand", "a sliding time window", _not_continuous)
COMPLETE_WITHOUT_AGGREGATE = Operation(
    "CompleteOutput",
    "outputMode complete without an aggregate",
    lambda execution: execution.output_mode != "complete",
    "each batch would write all rows again, without bound",
    "use outputMode append",
)
AGGREGATE_IN_FUNCTION = Operation(
    "Aggregate",
    "an aggregate in the body of a function",
    _never,
    "Spark's SQL functions compute one value from one row",
    "move it into the query",
)
JOIN_HINT = Operation(
    "ResolvedHint", "a join hint for the stream", _not_continuous, remedy="remove the hint"
)
WINDOW = Operation(
    "Window",
    "a window function (OVER)",
    _never,
    "only time windows are finite",
    "for the newest or greatest row of a key use max_by(struct(...), ...) grouped by the key and a "
    "time window, for the first one dropDuplicatesWithinWatermark in transform.python, and for the "
    "row before it transformWithState there",
)
JOIN = Operation(
    "Join",
    "a join of two streams",
    lambda execution: execution.in_batches and execution.output_mode != "complete",
)
OUTER_JOIN = Operation(
    "Join", "an outer join of two streams over event time", _append_with_watermark, _NO_MATCH
)
SEMI_JOIN = Operation(
    "Join", "a semi join of two streams over event time", _watermark_not_complete, _NO_MATCH
)
_COMPARE_IT = "compare the columns of event time in the condition"
OUTER_JOIN_WITHOUT_EVENT_TIME = Operation(
    "Join",
    "an outer join of two streams without event time in its condition",
    _never,
    _NO_MATCH,
    _COMPARE_IT,
)
SEMI_JOIN_WITHOUT_EVENT_TIME = Operation(
    "Join",
    "a semi join of two streams without event time in its condition",
    _never,
    _NO_MATCH,
    _COMPARE_IT,
)
ANTI_JOIN = Operation("Join", "an anti join with a stream on its right", _never)
CROSS_JOIN = Operation("Join", "a join of two streams without an equality", _never, _NO_KEY)
STATIC_JOIN = Operation("Join", "a join with a table", _not_continuous)
STATIC_CROSS_JOIN = Operation("Join", "a cross join with a table", _tasks_take_turns)
TABLE_PRESERVING_JOIN = Operation(
    "Join",
    "an outer join that keeps the rows of the table",
    _never,
    "a later record of the stream can still match a row of the table",
    "keep the rows of the stream instead",
)
UNION = Operation("Union", "UNION ALL", _tasks_take_turns)
STATIC_UNION = Operation("Union", "UNION of a stream and a table", _never)
DISTINCT_UNION = Operation(
    "Union", "UNION, which removes duplicates, over event time", _union_aggregate, _NO_EVENT_TIME
)
DISTINCT_UNION_WITHOUT_EVENT_TIME = Operation(
    "Union",
    "UNION, which removes duplicates",
    _union_aggregate_without_event_time,
    _NO_EVENT_TIME,
)
EXCEPT = Operation("Except", "EXCEPT with a stream on its right", _never)
# Spark makes an aggregate of it, but counts that neither for outputMode complete nor as state.
STATIC_EXCEPT = Operation("Except", "EXCEPT over event time", _aggregate, _NO_EVENT_TIME)
STATIC_EXCEPT_WITHOUT_EVENT_TIME = Operation(
    "Except", "EXCEPT", _aggregate_without_event_time, _NO_EVENT_TIME
)
INTERSECT = Operation("Intersect", "INTERSECT", _never)
WITH = Operation(
    "WithCTE",
    "a common table expression (WITH)",
    _not_continuous,
    remedy="write it as a subquery in FROM",
)
WATERMARK = Operation(
    "EventTimeWatermark",
    "a watermark (WATERMARK ... DELAY OF)",
    lambda execution: execution.mode not in (Mode.CONTINUOUS, Mode.ASYNC),
)
PIPE = Operation("PipeOperator", "pipe syntax", _not_continuous)
LATERAL = Operation("LateralJoin", "a lateral subquery", _not_continuous)
_GREATEST = (
    "remove it from the query; for the greatest of a time window use "
    "slice(sort_array(collect_list(struct(...)), false), 1, n), grouped by the window"
)
LIMIT = Operation("Limit", "LIMIT", _limit, "rows already written cannot be withdrawn", _GREATEST)
OFFSET = Operation("Offset", "OFFSET", _never)
SORT = Operation(
    "Sort",
    "sorting the rows of an aggregate",
    _sort,
    "a stream can only be sorted as a whole",
    _GREATEST,
)
SORT_WITHOUT_AGGREGATE = Operation(
    "Sort",
    "sorting",
    _never,
    "only the result of an aggregate can be sorted, as a whole",
    _GREATEST,
)
REPARTITION = Operation("Repartition", "repartitioning", _not_continuous)
COALESCE = Operation("Coalesce", "fewer partitions by COALESCE", _tasks_take_turns)
SAMPLE = Operation("Sample", "TABLESAMPLE", _never)
GENERATE = Operation("Generate", "a function that returns several rows", _not_continuous)
GENERATE_IN_FUNCTION = Operation(
    "Generate",
    "a function that returns several rows, in the body of a function",
    _never,
    "Spark's SQL functions compute one value from one row",
    "move it into the query",
)
INTERVAL_IN_WINDOW = Operation(
    "TimeWindow",
    "a time window with INTERVAL",
    _never,
    "Spark takes its lengths as text only",
    "write them as text, such as '1 hour'",
)
SCRIPT = Operation("ScriptTransformation", "SELECT TRANSFORM", _tasks_take_turns)
CURRENT_TIME = Operation(
    "CurrentTime",
    "the current time or date",
    _not_continuous,
    reason_in_continuous="the continuous engine plans a query once and would keep the time "
    "of its start",
)
ROW_NUMBER = Operation("MonotonicallyIncreasingID", "a row number per partition", _never)
STREAM_IN_SUBQUERY = Operation("Subquery", "a stream in a subquery expression", _never)
NO_STREAM = Operation(
    "NoStream",
    "a query that does not read `source`",
    _never,
    "it would end at once",
    "select from `source`",
)

# What makes Spark refuse to create a function, whether or not the query calls it.
IN_FUNCTION = (AGGREGATE_IN_FUNCTION, GENERATE_IN_FUNCTION, WINDOW, STREAM_IN_SUBQUERY)

# Whose messages also name another mode that supports them.
WITH_ALTERNATIVES = (WITH, LIMIT, SORT)
# What certainly keeps state between batches.
WITH_STATE = (
    AGGREGATE_WITHOUT_EVENT_TIME, AGGREGATE, SESSION_AGGREGATE, DISTINCT_WITHOUT_EVENT_TIME,
    DISTINCT, JOIN, OUTER_JOIN, SEMI_JOIN, PIVOT, DISTINCT_UNION, DISTINCT_UNION_WITHOUT_EVENT_TIME,
)  # fmt: skip

# In the order of docs/modes.md.
OPERATIONS: tuple[Operation, ...] = (
    AGGREGATE_WITHOUT_EVENT_TIME, AGGREGATE, SESSION_AGGREGATE, STATE_AFTER_AGGREGATE,
    DISTINCT_AGGREGATE, AGGREGATE_IN_FUNCTION, DISTINCT_WITHOUT_EVENT_TIME, DISTINCT, PIVOT,
    PIVOT_OF_COUNTS, UNPIVOT, SLIDING_WINDOW, INTERVAL_IN_WINDOW, WINDOW, JOIN, OUTER_JOIN,
    SEMI_JOIN, OUTER_JOIN_WITHOUT_EVENT_TIME, SEMI_JOIN_WITHOUT_EVENT_TIME, ANTI_JOIN, CROSS_JOIN,
    STATIC_JOIN, STATIC_CROSS_JOIN, TABLE_PRESERVING_JOIN, UNION,
    DISTINCT_UNION_WITHOUT_EVENT_TIME, DISTINCT_UNION, STATIC_UNION, EXCEPT,
    STATIC_EXCEPT_WITHOUT_EVENT_TIME, STATIC_EXCEPT, INTERSECT, JOIN_HINT, WATERMARK, WITH,
    PIPE, LATERAL, LIMIT, OFFSET, SORT_WITHOUT_AGGREGATE, SORT, REPARTITION, COALESCE, SAMPLE,
    GENERATE, GENERATE_IN_FUNCTION, SCRIPT, CURRENT_TIME, ROW_NUMBER, STREAM_IN_SUBQUERY,
    COMPLETE_WITHOUT_AGGREGATE, NO_STREAM,
)  # fmt: skip

_OUTPUTS = ("append", "update", "complete")
# For operations that only some modes support.
_REASON_BY_MODE = {
    Mode.REAL_TIME: "Spark 4.3 does not run it in real-time mode",
    Mode.ASYNC: "asynchronous progress tracking supports stateless queries only",
}


def reason_for_refusal(operation: Operation, execution: Execution) -> str:
    """Why an execution does not support an operation."""
    if any(
        operation.supported_by(Execution(Mode.MICRO_BATCH, output, True)) for output in _OUTPUTS
    ):
        if execution.mode is Mode.CONTINUOUS:
            return operation.reason_in_continuous
        return _REASON_BY_MODE.get(execution.mode, operation.reason)
    return operation.reason
