"""From the spec to a running query: source -> transform -> sink -> trigger."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.engine import Engine, engine_of
from penstock.driver.environment import Environment
from penstock.driver.spark import user_python
from penstock.driver.spark.sinks import sink_options
from penstock.driver.spark.sources import source_options
from penstock.driver.spark.transforms import transformed
from penstock.driver.spark.triggers import output_mode, trigger_arguments, trigger_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def plan(
    spark: SparkSession,
    spec: StreamSpec,
    environment: Environment,
    starting: str | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
) -> DataFrame:
    """The streaming DataFrame; raises AnalysisException if Spark does not understand it."""
    named, options = source_options(
        spec.source, environment.secrets, engine_of(spec), starting, partitions
    )
    reader = spark.readStream.format(_format(spark, named)).options(**options)
    if spec.source.custom is not None and spec.source.custom.schema_ is not None:
        reader = reader.schema(spec.source.custom.schema_)
    return transformed(spark, reader.load(), spec, environment.python)


def check(frame: DataFrame, spec: StreamSpec) -> None:
    """Raises AnalysisException if the engine does not support the query.

    The check that start() makes, made early: a query that will be refused should not wait for its
    executors first. In append mode an aggregate fails for its output mode before the continuous
    engine's check gets to naming it.
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


def start(
    frame: DataFrame, spec: StreamSpec, environment: Environment, name: str, location: str
) -> StreamingQuery:
    """Starts the query; what fails later is in the query's own exception."""
    named, options = sink_options(spec.sink, environment.secrets)
    return (
        frame.writeStream.format(_format(frame.sparkSession, named))
        .queryName(_query_name(spec, name))
        .options(**options)
        .options(**trigger_options(spec))
        .option("checkpointLocation", location)
        .outputMode(output_mode(spec))
        .trigger(**trigger_arguments(spec))
        .start()
    )


def _query_name(spec: StreamSpec, stream: str) -> str:
    """The memory sink calls its table by it."""
    if spec.sink.memory is not None:
        return spec.sink.memory.query_name
    return re.sub(r"[^A-Za-z0-9_]", "_", stream)


def _format(spark: SparkSession, named: str) -> str:
    """The data source's name to Spark; `module:Class` is one written in Python.

    (pyspark.sql.datasource; a Java class has no colon in its name.) It is registered under the
    name it gives itself, and its class is imported from the image by driver and executors.
    """
    if ":" not in named:
        return named
    source = user_python.load_member(named)
    spark.dataSource.register(source)
    return str(source.name())
