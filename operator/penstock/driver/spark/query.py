"""Plans, checks and starts the query: source, transform, sink, trigger."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.engine import Engine, engine_of
from penstock.driver.environment import Environment
from penstock.driver.failures import DriverError, Failure
from penstock.driver.spark import user_python
from penstock.driver.spark.sinks import sink_options
from penstock.driver.spark.sources import source_options
from penstock.driver.spark.transforms import apply_transform
from penstock.driver.spark.triggers import output_mode, trigger_arguments, trigger_options
from penstock.sql.columns import Column, find_column_problems

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class SinkColumnsError(DriverError):
    """The sink does not take the columns that the query makes."""


def plan(
    spark: SparkSession,
    spec: StreamSpec,
    environment: Environment,
    starting: str | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
) -> DataFrame:
    """The streaming DataFrame. Raises AnalysisException if Spark cannot analyze it."""
    named, options = source_options(
        spec.source, environment.secrets, engine_of(spec), starting, partitions
    )
    reader = spark.readStream.format(_format(spark, named)).options(**options)
    if spec.source.custom is not None and spec.source.custom.schema_ is not None:
        reader = reader.schema(spec.source.custom.schema_)
    return apply_transform(spark, reader.load(), spec, environment.python)


def check(frame: DataFrame, spec: StreamSpec) -> None:
    """Raises AnalysisException if the engine does not support the query, SinkColumnsError if the
    sink does not take its columns.

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
    written = getattr(modes, output_mode(spec).capitalize())()
    match engine_of(spec):
        case Engine.MICRO_BATCH:
            checker.checkForStreaming(analyzed, written)
        case Engine.REAL_TIME:
            checker.checkForStreaming(analyzed, written)
            checker.checkAdditionalRealTimeModeConstraints(analyzed, written)
        case Engine.CONTINUOUS:
            try:
                checker.checkForContinuous(analyzed, written)
            except AnalysisException as error:
                if (error.getCondition() or "").startswith("STREAMING_OUTPUT_MODE"):
                    checker.checkForContinuous(analyzed, modes.Update())
                raise
    columns = [Column(name, simple_type) for name, simple_type in frame.dtypes]
    if problems := find_column_problems(columns, spec.sink):
        raise SinkColumnsError(Failure("SinkColumns", "; ".join(problems), permanent=True))


def start(
    frame: DataFrame, spec: StreamSpec, environment: Environment, stream: str, location: str
) -> StreamingQuery:
    """Starts the query. Later failures are in the query's own exception."""
    named, options = sink_options(spec.sink, environment.secrets)
    return (
        frame.writeStream.format(_format(frame.sparkSession, named))
        .queryName(query_name(spec, stream))
        .options(**options)
        .options(**trigger_options(spec))
        .option("checkpointLocation", location)
        .outputMode(output_mode(spec))
        .trigger(**trigger_arguments(spec))
        .start()
    )


def query_name(spec: StreamSpec, stream: str) -> str:
    """Spark's name for the query: spec.queryName, or the stream's name.

    The memory sink uses it as the name of its table, which SQL must be able to parse.
    """
    name = spec.query_name or stream
    return name if spec.sink.memory is None else re.sub(r"[^A-Za-z0-9_]", "_", name)


def _format(spark: SparkSession, named: str) -> str:
    """The data source's name in Spark; `module:Class` is a data source written in Python.

    (pyspark.sql.datasource; a Java class has no colon in its name.) A Python data source is
    registered under the name that it returns. Driver and executors import its class from the image.
    """
    if ":" not in named:
        return named
    source = user_python.load_member(named)
    spark.dataSource.register(source)
    return str(source.name())
