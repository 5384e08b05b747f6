"""Ring 3 of validation: Spark's own analyser, on this machine, without a broker or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.api.v1alpha1 import Source, StreamSpec
from penstock.driver.failures import DriverError
from penstock.driver.java_exceptions import classify_exception
from penstock.driver.jvm import Jvm
from penstock.driver.spark import query, session
from penstock.driver.spark.transforms import transformed
from penstock.validation.problems import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEAP_MEBIBYTES = 1024
_CONF = {
    "spark.app.name": "penstock-validate",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[1]",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
}
# What Spark's sources yield (Structured Streaming + Kafka Integration Guide).
_KAFKA = (
    "CAST(NULL AS BINARY) AS key", "CAST(NULL AS BINARY) AS value", "CAST(NULL AS STRING) AS topic",
    "CAST(0 AS INT) AS partition", "CAST(0 AS BIGINT) AS offset", "timestamp",
    "CAST(0 AS INT) AS timestampType",
)  # fmt: skip
_HEADERS = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
# What is missing here and may well be in the image: no fault of the spec.
_MISSING_HERE = ("DATA_SOURCE_NOT_FOUND", "CANNOT_LOAD_FUNCTION_CLASS")

Judgement = tuple[bool, Problem]


@contextmanager
def analyser() -> Iterator[Callable[[StreamSpec], Judgement | None]]:
    """Judges specs by Spark: whether what it says is a refusal, and what it says."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    jvm = Jvm.launch(_HEAP_MEBIBYTES, "", "127.0.0.1")
    try:
        spark = session.start(jvm.gateway, _CONF)
        spark.sparkContext.setLogLevel("OFF")

        def judge(spec: StreamSpec) -> Judgement | None:
            try:
                frame = transformed(spark, _like(spark, spec.source), spec, Path("configmaps"))
                query.check(frame, spec)
            except PySparkException as error:
                said = classify_exception(error)
                missing = (error.getCondition() or "").startswith(_MISSING_HERE)
                return (not missing, Problem(said.reason, f"Spark says: {said.message}"))
            except (DriverError, Py4JJavaError) as error:  # a class or module that is not here
                why = classify_exception(error).message
                return (False, Problem("NotJudged", f"not judged by Spark here: {why}"))
            return None

        yield judge
        spark.stop()
    finally:
        jvm.end()


def _like(spark: SparkSession, source: Source) -> DataFrame:
    """A stream with the columns of the source, and no network behind it."""
    rate = spark.readStream.format("rate").load()
    if source.kafka is not None:
        headers = [_HEADERS] if source.kafka.include_headers else []
        return rate.selectExpr(*_KAFKA, *headers)
    if source.socket is not None:
        stamp = ["timestamp"] if source.socket.include_timestamp else []
        return rate.selectExpr("CAST(value AS STRING) AS value", *stamp)
    custom = source.custom
    if custom is None:
        return rate
    if custom.schema_ is not None:
        schema = custom.schema_.replace("'", "\\'")
        return rate.selectExpr(f"from_json('', '{schema}') AS row").selectExpr("row.*")
    return spark.readStream.format(custom.format).options(**custom.options).load()
