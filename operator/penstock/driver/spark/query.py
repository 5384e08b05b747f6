"""Plans, checks and starts the query: source, transform, sink, trigger."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api.modes import Mode, execution_of
from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import Sink, StreamSpec
from penstock.api.v1alpha1.jdbc_sink import JdbcSink
from penstock.contract.remedies import REMEDIES
from penstock.driver.checkpoint.folder import CheckpointContents
from penstock.driver.environment import Environment, LocalEnvironment
from penstock.driver.failures import (
    CHECKPOINT_HOLDS_NO_STATE,
    QUERY_NOT_STOPPED,
    SINK_COLUMNS,
    DriverError,
    Failure,
)
from penstock.driver.jdbc import table_columns
from penstock.driver.jdbc.admin import Table
from penstock.driver.jdbc.table_columns import DELETED, WrittenRows
from penstock.driver.jvm import java_class
from penstock.driver.kafka import transactions
from penstock.driver.record_position import Position
from penstock.driver.secret_values import file_of, redact_from_now_on
from penstock.driver.spark import replays, user_python
from penstock.driver.spark.custom import FILES_OPTION, is_python
from penstock.driver.spark.sinks import sink_options
from penstock.driver.spark.sources import (
    KAFKA,
    PENSTOCK_KAFKA,
    source_options,
)
from penstock.driver.spark.transforms import apply_transform
from penstock.sql.columns import (
    Column,
    find_column_problems,
    find_dropped_columns,
    find_routing_warnings,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.driver.spark.batch_function import BatchFunction


class QueryNotPossible(DriverError):
    """Spark would run the query, but not as the spec's sink or source asks."""


def plan(
    spark: SparkSession,
    spec: StreamSpec,
    environment: Environment,
    starting: str | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    leave_out: Sequence[Position] = (),
) -> DataFrame:
    """The streaming DataFrame. Raises AnalysisException if Spark cannot analyze it."""
    secrets, mode = environment.secrets, spec.trigger.mode
    # Only here does the driver learn which values of options it must not say.
    redact_from_now_on(file_of(ref, secrets) for ref in spec.secret_value_refs)
    named, options = source_options(spec.source, secrets, mode, starting, partitions, leave_out)
    reader = spark.readStream.format(_format(spark, named, options)).options(**options)
    if spec.source.custom is not None and spec.source.custom.schema_ is not None:
        reader = reader.schema(spec.source.custom.schema_)
    source = reader.load()
    frame = apply_transform(spark, source, spec, environment.python)
    _refuse_another_source(frame, source)
    if isinstance(environment, LocalEnvironment) and environment.rows_as_json:
        frame = frame.selectExpr("to_json(struct(*)) AS value")
    return _with_deletes(frame, spec.sink)


def sink_function(spec: StreamSpec, texts: Path) -> Callable[..., Any] | None:
    """The function of sink.python; None with another sink. Raises DriverError if it is missing, or
    takes other arguments. `texts` is the ConfigMaps' folder.
    """
    sink = spec.sink.python
    if sink is None:
        return None
    function: Callable[..., Any] = user_python.load_function(sink, texts)
    try:
        inspect.signature(function).bind("rows", "batch")
    except ValueError:  # nothing tells them
        pass
    except TypeError as error:
        message = f"{sink.function} must take two arguments, the DataFrame of a batch's rows, and "
        raise DriverError.permanent(user_python.FAILED, f"{message}the batch: {error}") from error
    return function


def _with_deletes(frame: DataFrame, sink: Sink) -> DataFrame:
    """With a column that says which rows delete those of their keys, if the sink has a condition
    for that.
    """
    if sink.jdbc is None or sink.jdbc.delete_when is None:
        return frame
    from pyspark.sql import functions

    holds = functions.coalesce(
        functions.expr(sink.jdbc.delete_when).cast("boolean"), functions.lit(False)
    )
    return frame.withColumn(DELETED, holds)


def check(
    frame: DataFrame,
    spec: StreamSpec,
    longest_transaction_ms: int = transactions.DEFAULT_LONGEST_MS,
) -> None:
    """Raises AnalysisException if the engine does not support the query; QueryNotPossible if the
    sink does not take its columns, or dead letters or transactions are not possible.

    It is the check that start() makes, made early: a query that Spark refuses should not wait for
    its executors first. In append mode an aggregate fails for its output mode before the
    continuous engine's check names it.
    """
    from pyspark.errors import AnalysisException

    jvm: Any = frame.sparkSession._jvm
    java: Any = frame._jdf
    analyzed = java.queryExecution().analyzed()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    output_mode = execution_of(spec).output_mode
    written = getattr(modes, output_mode.capitalize())()
    match spec.trigger.mode:
        case Mode.MICRO_BATCH | Mode.ASYNC | Mode.AVAILABLE_NOW:
            checker.checkForStreaming(analyzed, written)
        case Mode.REAL_TIME:
            checker.checkForStreaming(analyzed, written)
            checker.checkAdditionalRealTimeModeConstraints(analyzed, written)
        case Mode.CONTINUOUS:
            try:
                checker.checkForContinuous(analyzed, written)
            except AnalysisException as error:
                if (error.getCondition() or "").startswith("STREAMING_OUTPUT_MODE"):
                    checker.checkForContinuous(analyzed, modes.Update())
                raise
    if (
        spec.source.kafka is not None
        and spec.source.kafka.dead_letters
        and reads_ahead(frame, spec.sink)
    ):
        reason = "DeadLettersNotPossible"
        message = (
            "The query may have read more records when one of them fails: it calls Python or a "
            "function over many records, or has a sink of others. So which one it was is not "
            f"known, and spec.source.kafka.deadLetters is not possible. {REMEDIES[reason].action}"
        )
        raise QueryNotPossible(Failure(reason, message, permanent=True))
    if spec.sink.exactly_once:
        _check_transactions(frame, spec, longest_transaction_ms)
    if problems := find_column_problems(_columns(frame), spec.sink):
        raise QueryNotPossible(Failure(SINK_COLUMNS, "; ".join(problems), permanent=True))


def _columns(frame: DataFrame) -> list[Column]:
    """Two columns of one origin have the same values, whatever their names are."""
    java: Any = frame._jdf
    attributes = _output(java.queryExecution().analyzed())
    return [
        Column(name, simple_type, origin=str(attribute.exprId()))
        for (name, simple_type), attribute in zip(frame.dtypes, attributes, strict=True)
    ]


def rows_for_table(frame: DataFrame, sink: JdbcSink, table: Table) -> WrittenRows:
    """How the table gets the rows; raises QueryNotPossible if it does not take them.

    The table can be altered, so the reason is looked for again now and then.
    """
    columns = _columns(frame)
    needed = _columns_of_condition(frame) if sink.delete_when is not None else []
    if problems := table_columns.find_problems(columns, sink, table, needed):
        message = f"spec.sink.jdbc, the table {table.table}: {'; '.join(problems)}"
        raise QueryNotPossible(Failure(SINK_COLUMNS, message, permanent=True, recoverable=True))
    return table_columns.written_rows(columns, sink, table)


def _columns_of_condition(frame: DataFrame) -> list[str]:
    """The columns that sink.jdbc.deleteWhen needs: the plan's uppermost projection adds it last."""
    java: Any = frame._jdf
    read = java.queryExecution().analyzed().projectList().last().references().toSeq()
    return [str(read.apply(i).name()) for i in range(read.length())]


def _check_transactions(frame: DataFrame, spec: StreamSpec, longest_ms: int) -> None:
    """Raises QueryNotPossible if a task writes what other tasks have read, or for too long; with
    state, if a batch that runs again may make other rows.

    A join with a table may be such a query or not, by Spark's choice: then the task refuses it.
    """
    if keeps_state(frame) and not spec.trigger.mode.has_long_running_tasks:
        promise = spec.transform.deterministic
        if problem := replays.find_problem(_analyzed_plan(frame), _STATEFUL, is_promised=promise):
            raise _no_transactions(problem)
        return
    shuffling = sorted(set(map(_name, _operators(frame))) & _SHUFFLING)
    reads = number_of_reads(frame)
    too_long = transactions.epoch_problem(spec, longest_ms)
    if too_long is not None and reads_ahead(frame, spec.sink):
        raise _no_transactions(too_long)
    if keeps_state(frame):
        problem = "keeps state, so that only trigger.microBatch can write it exactly once"
    elif shuffling:
        problem = f"has a {shuffling[0]}"
    elif reads > 1:
        problem = f"reads the source {reads} times"
    else:
        return
    raise _no_transactions(
        f"A task has to write all that it has read of a partition, and this query {problem}."
    )


def batch_tasks(frame: DataFrame, state_partitions: int) -> int:
    """How many tasks write each batch of a query with state, which has passed `check`."""
    return replays.writing_tasks(_analyzed_plan(frame), state_partitions)


def _analyzed_plan(frame: DataFrame) -> replays.Plan:
    """Raises Java's ClassNotFoundException where connector/ is not there."""
    jvm: Any = frame.sparkSession._jvm
    java: Any = frame._jdf
    reader = "dev.penstock.spark.driver.PlanReader"
    jvm.java.lang.Class.forName(reader)
    gateway = frame.sparkSession.sparkContext._gateway
    told = java_class(gateway, reader).read(java.queryExecution().analyzed())
    return replays.PLAN.validate_json(told)


def _no_transactions(problem: str) -> QueryNotPossible:
    return QueryNotPossible(transactions.impossible(problem, recoverable=False).failure)


def column_warning(frame: DataFrame, spec: StreamSpec) -> Failure | None:
    """A warning if code makes columns that Spark's writer drops, or takes for the destination of a
    record. Of SQL the operator warns.
    """
    if spec.transform.python is None and spec.transform.java is None:
        return None
    java: Any = frame._jdf
    sources = {
        str(column.exprId()): column.name() for read in _reads(frame) for column in _output(read)
    }
    written = _output(java.queryExecution().analyzed())
    columns = [Column(made.name(), origin=sources.get(str(made.exprId()))) for made in written]
    is_kafka = spec.source.kafka is not None
    routing = find_routing_warnings(columns, spec.sink) if is_kafka else []
    warnings = [*routing, *find_dropped_columns(columns, spec.sink)]
    if not warnings:
        return None
    reason = "SinkRouting" if routing else SINK_COLUMNS
    return Failure(reason, f"spec.transform: {'; '.join(warnings)}")


def _output(operator: Any) -> list[Any]:
    """The attributes of an operator's rows."""
    attributes = operator.output()
    return [attributes.apply(i) for i in range(attributes.length())]


# Operators of Spark's logical plan that keep state if their input is a stream.
_STATEFUL = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        # Rewritten to an aggregate (ReplaceOperators).
        "Except",
        "Intersect",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)


def check_continues(
    frame: DataFrame, contents: CheckpointContents | None, used: int | None = None
) -> None:
    """Raises DriverError if Spark could not continue this query from the checkpoint.

    Spark finds out once the query runs: about sources with an AssertionError, about state with the
    first batch (STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY, 4.2). `used`: the sink may
    know the batches up to this one from another generation.
    """
    if used is not None and (keeps_state(frame) or (contents and contents.state)):
        raise DriverError.permanent(
            "UnsupportedOperation",
            f"The sink may know the batches 0 to {used} from another generation of the checkpoint, "
            "and would skip others with these numbers, which a query with state must have. Go back "
            "to that generation, or give the sink another option path.",
        )
    if contents is None:
        return
    reads = number_of_reads(frame)
    if reads != contents.sources:
        raise _not_continued(
            "CheckpointOfOtherReads",
            f"The previous query read the source {contents.sources} times, and this one reads it "
            f"{reads} times (each `source` in a union or a join is one), so the offsets in the "
            "checkpoint are not for it.",
        )
    stateful = keeps_state(frame)
    if contents.state is False and stateful:
        raise _not_continued(
            CHECKPOINT_HOLDS_NO_STATE,
            "This query keeps state (an aggregate, a join of streams, a deduplication), and the "
            "checkpoint is of a query without state, from which Spark starts no query with state.",
        )
    if contents.state and not stateful:
        raise _not_continued(
            "CheckpointHoldsState",
            "The previous query kept state in this checkpoint, and this query keeps none. Results "
            "that the previous query has not written yet would be lost.",
        )


def number_of_reads(frame: DataFrame) -> int:
    """How often the query reads its source: each `source` in a union or a join is one read."""
    return len(_reads(frame))


def keeps_state(frame: DataFrame) -> bool:
    """Whether the query keeps state between batches, which executors write to the checkpoint."""
    return any(map(_keeps_state, _operators(frame)))


def state_tasks(frame: DataFrame, spec: StreamSpec, state_partitions: int) -> int:
    """The tasks behind a shuffle that run all the time: those of real-time mode, whose stages all
    do (IncrementalExecution.MarkPipelinedShuffleForRealTimeMode, Spark 4.3).

    At most so many: Spark saves the shuffle between two operators with the same keys.
    """
    if spec.trigger.mode is not Mode.REAL_TIME:
        return 0
    streaming = (operator for operator in _operators(frame) if operator.isStreaming())
    return sum(_tasks_behind(operator, state_partitions) for operator in streaming)


def _tasks_behind(operator: Any, state_partitions: int) -> int:
    """The tasks behind the operator's shuffle; 0 if it has none."""
    name = _name(operator)
    if name == "Aggregate" and operator.groupingExpressions().isEmpty():
        return 1
    if name in ("Repartition", "RepartitionByExpression"):
        return int(operator.numPartitions())
    return state_partitions if _keeps_state(operator) or name == "RebalancePartitions" else 0


# Operators without state that may pass records to other tasks.
_SHUFFLING = frozenset(
    {"Coalesce", "Repartition", "RepartitionByExpression", "RebalancePartitions", "Sort", "Window"}
)


# Operators that process one record before they read the next one, or that read all of them before
# they go on: then the task has no record in hand.
_ONE_BY_ONE = frozenset(
    {
        "Aggregate", "AppendColumns", "CTERelationDef", "CTERelationRef", "CollectMetrics",
        "DataSourceV2Relation", "Deduplicate", "DeduplicateWithinWatermark", "DeserializeToObject",
        "Distinct", "EventTimeWatermark", "Expand", "Filter", "FlatMapGroupsWithState", "Generate",
        "GlobalLimit", "InMemoryRelation", "Join", "LocalLimit", "LocalRelation", "LogicalRDD",
        "LogicalRelation", "MapElements", "OneRowRelation", "Project", "Range", "Repartition",
        "RepartitionByExpression", "ResolvedHint", "SerializeFromObject", "Sort",
        "StreamingRelation", "StreamingRelationV2", "SubqueryAlias", "TransformWithState",
        "TypedFilter", "Union", "View", "Window", "WithCTE",
    }
)  # fmt: skip


def reads_ahead(frame: DataFrame, sink: Sink) -> bool:
    """Whether a task may have read more records when it fails over one: Python gets many at once, a
    function over a partition reads as it likes, and a sink of others may keep rows for a later
    write.
    """
    jvm: Any = frame.sparkSession._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    java: Any = frame._jdf
    calls_python = bool(java.queryExecution().analyzed().containsPattern(patterns.PYTHON_UDF()))
    is_one_by_one = all(_name(operator) in _ONE_BY_ONE for operator in _operators(frame))
    return sink.of_others is not None or calls_python or not is_one_by_one


def _not_continued(reason: str, message: str) -> DriverError:
    return DriverError(Failure(reason, f"{message} {REMEDIES[reason].action}", permanent=True))


def _refuse_another_source(frame: DataFrame, source: DataFrame) -> None:
    """A transform may read a second stream, whose offsets nothing here would keep."""
    own = {_origin(read) for read in _reads(source)}
    others = {_origin(read) for read in _reads(frame)} - own
    if others:
        raise DriverError(
            Failure(
                "UnsupportedOperation",
                "The transform reads a second stream besides spec.source: "
                f"{min(others)[0]}. A stream has one source. To read several topics, name "
                "them in spec.source.kafka.topics; to join two topics, read both there, and tell "
                "them apart by the column topic.",
                permanent=True,
            )
        )


def _origin(read: Any) -> tuple[str, str]:
    """The format and the options of a source that a plan reads."""
    if _name(read) == "StreamingRelationV2":
        return str(read.sourceName()), str(read.extraOptions().asCaseSensitiveMap().toString())
    source = read.dataSource()
    return str(source.className()), str(source.options().toString())


def _reads(frame: DataFrame) -> list[Any]:
    """The streaming sources in a plan; Spark keeps offsets for each time that one is read."""
    return [read for read in _operators(frame) if _name(read).startswith("StreamingRelation")]


def _operators(frame: DataFrame) -> Iterator[Any]:
    """The operators of the analyzed plan."""
    java: Any = frame._jdf
    pending = [java.queryExecution().analyzed()]
    while pending:
        operator = pending.pop()
        yield operator
        children = operator.children()
        pending += [children.apply(i) for i in range(children.length())]


def _keeps_state(operator: Any) -> bool:
    name = _name(operator)
    if name == "Join":
        return bool(operator.left().isStreaming() and operator.right().isStreaming())
    return name in _STATEFUL and bool(operator.isStreaming())


def _name(operator: Any) -> str:
    return str(operator.getClass().getSimpleName())


_ALLOWLIST_CHECK = "spark.sql.streaming.realTimeMode.allowlistCheck"


def start(
    frame: DataFrame,
    spec: StreamSpec,
    environment: Environment,
    stream: str,
    location: str,
    once: Mapping[str, str] | None = None,
    *,
    function: BatchFunction | None = None,
    one_batch: bool = False,
) -> StreamingQuery:
    """Starts the query; with the options `once` (kafka/transactions.py, jdbc/sink_table.py) it
    writes exactly once, and with `one_batch` it ends after the next batch, and has planned no other
    then. `function` is that of sink.python.

    Later failures are in the query's own exception.
    """
    if once and spec.trigger.mode is Mode.REAL_TIME:
        # It takes sinks by the names of their classes. The other half of it, that of the operators,
        # KafkaStreamWrite.java makes.
        frame.sparkSession.conf.set(_ALLOWLIST_CHECK, "false")
    if function is not None:
        writer = frame.writeStream.foreachBatch(function)
    else:
        writer = _into_data_source(frame, spec, environment, once or {})
    return (
        writer.queryName(query_name(spec, stream))
        .options(**trigger_options(spec))
        .option("checkpointLocation", location)
        .outputMode(execution_of(spec).output_mode)
        .trigger(**({"once": True} if one_batch else trigger_arguments(spec)))
        .start()
    )


def _into_data_source(
    frame: DataFrame, spec: StreamSpec, environment: Environment, once: Mapping[str, str]
) -> DataStreamWriter:
    # At least once, Spark's own sink does the same in batches.
    is_other = spec.trigger.mode is Mode.CONTINUOUS or once
    kafka = PENSTOCK_KAFKA if is_other else KAFKA
    named, given = sink_options(spec.sink, environment.secrets, kafka)
    options = {**once, **given}
    writer = frame.writeStream.format(_format(frame.sparkSession, named, options))
    if spec.sink.custom is not None and spec.sink.custom.partition_by:
        writer = writer.partitionBy(*spec.sink.custom.partition_by)  # memory refuses an empty list
    return writer.options(**options)


def stop(running: StreamingQuery) -> None:
    """Stops a query; raises a failure that must end the process if it does not stop in time.

    Its thread may be stuck in a slow write of the checkpoint. It would end that write after the
    next repair, and the next query would take the file for its own.
    """
    from py4j.protocol import Py4JJavaError

    try:
        running.stop()
    except Py4JJavaError as error:
        raise DriverError(
            Failure(
                QUERY_NOT_STOPPED,
                "The query did not stop in time (spark.sql.streaming.stopTimeout). The process "
                "restarts, so that nothing of it writes to the checkpoint any more.",
            )
        ) from error


def query_name(spec: StreamSpec, stream: str) -> str:
    """Spark's name for the query: spec.queryName, or the stream's name.

    The memory sink uses it as the name of its table, which SQL must be able to parse.
    """
    name = spec.query_name or stream
    return name if spec.sink.memory is None else re.sub(r"[^A-Za-z0-9_]", "_", name)


def trigger_arguments(spec: StreamSpec) -> dict[str, Any]:
    """The arguments of DataStreamWriter.trigger."""
    # Spark does not read Kubernetes' spelling, such as 500ms.
    interval = f"{milliseconds(spec.trigger.interval)} milliseconds"
    match spec.trigger.mode:
        case Mode.CONTINUOUS:
            return {"continuous": interval}
        case Mode.REAL_TIME:
            return {"realTime": interval}
        case Mode.AVAILABLE_NOW:
            return {"availableNow": True}
        case Mode.MICRO_BATCH | Mode.ASYNC:
            return {"processingTime": interval}


def trigger_options(spec: StreamSpec) -> dict[str, str]:
    """What Spark takes as options of the sink ("Asynchronous Progress Tracking")."""
    tracking = spec.trigger.async_progress
    if tracking is None:
        return {}
    interval = milliseconds(tracking.checkpoint_interval)
    return {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": str(interval),
    }


def _format(spark: SparkSession, name: str, options: Mapping[str, str]) -> str:
    """The data source's name in Spark.

    One written in Python (pyspark.sql.datasource) is registered under the name that it returns.
    Driver and executors import its class from the image.
    """
    if not is_python(name):
        return name
    source = user_python.load_member(name)
    if FILES_OPTION in options:
        source = user_python.with_secret_options(source, FILES_OPTION, options[FILES_OPTION])
    spark.dataSource.register(source)
    return str(source.name())
