"""From the spec to a running query: source -> functions and SQL -> sink -> trigger."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.stream.quantities import milliseconds
from penstock.stream.spec import Sink, Source, SqlFunction, StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SOURCE_VIEW = "source"

# The continuous reader throws a request that waits at the broker away and asks anew, so that a
# record waits for up to fetch.max.wait.ms: 4 ms at 2, 22 ms at 50 (measured; Kafka's default 500).
_SOURCE_DEFAULTS = {"kafka.fetch.max.wait.ms": "2", "kafka.fetch.min.bytes": "1"}
_SINK_DEFAULTS = {"kafka.linger.ms": "0"}

# Columns that Spark's Kafka sink takes (Structured Streaming + Kafka Integration Guide). A row of
# the Kafka source also has topic and partition: passed on, they would send the record back to
# where it came from.
_PASSED_ON = ("key", "value", "headers")


def source_options(source: Source, starting: str | None = None) -> tuple[str, dict[str, str]]:
    """The source's format and options; `starting` is Spark's startingOffsets, made explicit."""
    if source.kafka is not None:
        kafka = source.kafka
        options = {
            **_SOURCE_DEFAULTS,
            "startingOffsets": starting or kafka.starting_offsets,
            **kafka.options,
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribe": ",".join(kafka.topics),
        }
        return "kafka", options
    if source.rate is not None:
        options = {
            "rowsPerSecond": str(source.rate.rows_per_second),
            "numPartitions": str(source.rate.num_partitions),
        }
        return "rate", options
    raise ValueError("spec.source names no source")


def sink_options(sink: Sink) -> tuple[str, dict[str, str]]:
    """The sink's format and options."""
    if sink.kafka is not None:
        kafka = sink.kafka
        options = {
            **_SINK_DEFAULTS,
            **kafka.options,
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
        }
        return "kafka", options if kafka.topic is None else {**options, "topic": kafka.topic}
    if sink.console is not None:
        options = {
            "numRows": str(sink.console.num_rows),
            "truncate": str(sink.console.truncate).lower(),
        }
        return "console", options
    raise ValueError("spec.sink names no sink")


def begins_at_latest(source: Source) -> bool:
    """Whether the first start begins at the end of the topic, as `latest` means at that moment."""
    own = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    return (
        source.kafka is not None
        and source.kafka.starting_offsets == "latest"
        and not any(name in source.kafka.options for name in own)
    )


def trigger_interval_ms(spec: StreamSpec) -> int:
    """How often progress is committed."""
    if spec.trigger.continuous is None:
        raise ValueError("spec.trigger names no trigger")
    return milliseconds(spec.trigger.continuous.checkpoint_interval)


def create_function(function: SqlFunction) -> str:
    """The statement that makes a function known to the session."""
    parameters = ", ".join(f"{each.name} {each.type}" for each in function.parameters)
    return (
        f"CREATE OR REPLACE TEMPORARY FUNCTION {function.name}({parameters}) "
        f"RETURNS {function.returns} RETURN {function.expression}"
    )


def passed_on(columns: Iterable[str], sink: Sink) -> list[str] | None:
    """The columns a stream without SQL passes to its sink; None means all of them."""
    if sink.kafka is None:
        return None
    kept = [column for column in columns if column in _PASSED_ON]
    return kept or None


def plan(spark: SparkSession, spec: StreamSpec, starting: str | None = None) -> DataFrame:
    """The streaming DataFrame; raises AnalysisException if Spark does not understand it."""
    format_name, options = source_options(spec.source, starting)
    source = spark.readStream.format(format_name).options(**options).load()
    source.createOrReplaceTempView(SOURCE_VIEW)
    for function in spec.transform.functions:
        spark.sql(create_function(function))
    if spec.transform.sql is not None:
        return spark.sql(spec.transform.sql)
    kept = passed_on(source.columns, spec.sink)
    return source if kept is None else source.select(*kept)


def check(frame: DataFrame) -> None:
    """Raises AnalysisException if the continuous engine does not support the query.

    The check that start() makes, made early: a query that will be refused should not wait for its
    executors first. In append mode, which is all that continuous queries have, an aggregate fails
    for its output mode before the check gets to naming it.
    """
    from pyspark.errors import AnalysisException

    jvm: Any = frame.sparkSession._jvm
    sql = jvm.org.apache.spark.sql
    java: Any = frame._jdf
    analyzed = java.queryExecution().analyzed()
    checker, mode = sql.catalyst.analysis.UnsupportedOperationChecker, sql.streaming.OutputMode
    try:
        checker.checkForContinuous(analyzed, mode.Append())
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("STREAMING_OUTPUT_MODE"):
            checker.checkForContinuous(analyzed, mode.Update())
        raise


def start(frame: DataFrame, spec: StreamSpec, name: str, location: str) -> StreamingQuery:
    """Starts the query; what fails later is in the query's own exception."""
    format_name, options = sink_options(spec.sink)
    return (
        frame.writeStream.format(format_name)
        .queryName(re.sub(r"[^A-Za-z0-9_]", "_", name))
        .options(**options)
        .option("checkpointLocation", location)
        .outputMode("append")
        .trigger(continuous=f"{trigger_interval_ms(spec)} milliseconds")
        .start()
    )
