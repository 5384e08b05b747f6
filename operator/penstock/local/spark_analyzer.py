"""`penstock validate --spark`: Spark's own analyzer on this machine, without broker or cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.api.problem import NOT_JUDGED, Problem, Severity
from penstock.api.v1alpha1 import Source, StreamSpec
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import DriverError
from penstock.driver.jvm import Jvm, fast_start_options
from penstock.driver.spark import query, session
from penstock.driver.spark.transforms import apply_transform
from penstock.local.tools.java import require_java
from penstock.validation.file_check import Analyzer

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_HEAP_MEBIBYTES = 1024
_TRANSFORM = ("spec", "transform")
_CONF = {
    "spark.app.name": "penstock-validate",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[1]",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
}
# The columns of Spark's Kafka source (Structured Streaming + Kafka Integration Guide).
_KAFKA = (
    "CAST(NULL AS BINARY) AS key", "CAST(NULL AS BINARY) AS value", "CAST(NULL AS STRING) AS topic",
    "CAST(0 AS INT) AS partition", "CAST(0 AS BIGINT) AS offset", "timestamp",
    "CAST(0 AS INT) AS timestampType",
)  # fmt: skip
_HEADERS = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
# Classes that are missing here may be in the image: only a warning.
_MISSING_CLASS = ("DATA_SOURCE_NOT_FOUND", "CANNOT_LOAD_FUNCTION_CLASS")


@contextmanager
def spark_analyzer() -> Iterator[Analyzer]:
    """Starts Spark for the length of the block; the analyzer has it plan each spec's query.

    Raises CommandError if there is no Java.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    require_java()
    options = fast_start_options([], _HEAP_MEBIBYTES, cores=0)
    jvm = Jvm.launch(_HEAP_MEBIBYTES, "", "127.0.0.1", options)
    try:
        spark = session.start(jvm.gateway, _CONF)
        spark.sparkContext.setLogLevel("OFF")

        def analyze(spec: StreamSpec) -> list[Problem]:
            wrong = _wrong_pattern(spark, spec.source)
            if wrong is not None:
                return [wrong]
            texts = Path("configmaps")
            try:
                source = placeholder(spark, spec.source)
                query.check(apply_transform(spark, source, spec, texts), spec)
                query.sink_function(spec, texts)
            except PySparkException as error:
                failure = classify_exception(error)
                is_missing = (error.getCondition() or "").startswith(_MISSING_CLASS)
                severity: Severity = "notice" if is_missing else "error"
                message = f"Spark says: {failure.message}"
                return [_located(spec, error, Problem(failure.reason, message, severity))]
            except query.QueryNotPossible as error:
                return [Problem(error.failure.reason, error.failure.message)]
            except (DriverError, Py4JJavaError) as error:  # a class or module that is missing here
                message = f"Spark could not check it here: {classify_exception(error).message}"
                return [Problem(NOT_JUDGED, message, "notice")]
            return []

        yield analyze
        spark.stop()
    finally:
        jvm.end()


def _located(spec: StreamSpec, error: PySparkException, problem: Problem) -> Problem:
    """The problem with the field that Spark refuses, and where in the text of a query."""
    from pyspark.errors import QueryContextType

    transform = spec.transform
    fields = [name for name in ("sql", "python", "java") if getattr(transform, name) is not None]
    path = (*_TRANSFORM, *fields)
    for context in error.getQueryContext() if transform.sql is not None else ():
        if context.contextType() is not QueryContextType.SQL:
            continue
        start, sql = context.startIndex(), transform.sql or ""
        if start >= 0 and sql.startswith(context.fragment(), start):
            line, column = sql.count("\n", 0, start) + 1, start - sql.rfind("\n", 0, start)
            return replace(problem, path=path, text_line=line, text_column=column)
    # Without a place it may as well be about a function that the spec declares.
    return replace(problem, path=_TRANSFORM if transform.functions else path)


def _wrong_pattern(spark: SparkSession, source: Source) -> Problem | None:
    from pyspark.errors import IllegalArgumentException

    pattern = None if source.kafka is None else source.kafka.topic_pattern
    if pattern is None:
        return None
    try:
        spark._jvm.java.util.regex.Pattern.compile(pattern)  # type: ignore[union-attr]
    except IllegalArgumentException as error:  # PatternSyntaxException is one
        why = " ".join(str(error).split())
        return Problem("InvalidPattern", f"spec.source.kafka.topicPattern: Java says: {why}")
    return None


def placeholder(spark: SparkSession, source: Source) -> DataFrame:
    """A stream with the columns of the source that needs no network."""
    rate = spark.readStream.format("rate").load()
    if source.kafka is not None:
        headers = [_HEADERS] if source.kafka.include_headers else []
        return rate.selectExpr(*_KAFKA, *headers)
    if source.socket is not None:
        timestamp = ["timestamp"] if source.socket.include_timestamp else []
        return rate.selectExpr("CAST(value AS STRING) AS value", *timestamp)
    custom = source.custom
    if custom is None:
        return rate
    if custom.schema_ is not None:
        schema = custom.schema_.replace("'", "\\'")
        return rate.selectExpr(f"from_json('', '{schema}') AS row").selectExpr("row.*")
    if custom.secret_options:
        raise DriverError.permanent(
            NOT_JUDGED,
            "the source tells its columns only with its Secrets. Write spec.source."
            "custom.schema, if it takes one, and the query is checked too.",
        )
    return spark.readStream.format(custom.format).options(**custom.options).load()
