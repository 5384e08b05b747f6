"""What real exceptions of Spark, of a user's Python and of Kafka's clients are taken for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.driver.environment import LocalEnvironment
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import Failure
from penstock.driver.spark import query
from testkit.streams.streams import stream

UNKNOWN = "no-such-broker.example:9092"
_STRINGS = "org.apache.kafka.common.serialization.String"


def _client(spark: SparkSession, **more: str) -> Any:
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for name, value in {"bootstrap.servers": UNKNOWN, **more}.items():
        options.put(name, value)
    return jvm.org.apache.kafka.clients, options


def admin(spark: SparkSession, **more: str) -> None:
    clients, options = _client(spark, **more)
    clients.admin.AdminClient.create(options)


def consumer(spark: SparkSession, **more: str) -> None:
    strings = {f"{of}.deserializer": f"{_STRINGS}Deserializer" for of in ("key", "value")}
    clients, options = _client(spark, **strings, **more)
    clients.consumer.KafkaConsumer(options)


def producer(spark: SparkSession, **more: str) -> None:
    strings = {f"{of}.serializer": f"{_STRINGS}Serializer" for of in ("key", "value")}
    clients, options = _client(spark, **strings, **more)
    clients.producer.KafkaProducer(options)


def source_of_spark(spark: SparkSession, **more: str) -> None:
    kafka = {f"kafka.{name}": value for name, value in more.items()}
    reader = spark.read.format("kafka").options(**kafka, subscribe="in")
    reader.option("kafka.bootstrap.servers", UNKNOWN).load().count()


def sink_of_spark(spark: SparkSession, **more: str) -> None:
    kafka = {f"kafka.{name}": value for name, value in more.items()}
    writer = spark.range(1).selectExpr("CAST(id AS STRING) AS value").write.format("kafka")
    writer.options(**kafka, topic="out").option("kafka.bootstrap.servers", UNKNOWN).save()


Client = Callable[..., None]
EACH_CLIENT = pytest.mark.parametrize(
    "client", [admin, consumer, producer, source_of_spark, sink_of_spark]
)


@EACH_CLIENT
def test_a_name_that_does_not_resolve_is_an_outage(spark: SparkSession, client: Client) -> None:
    """Kafka's clients call it a wrong configuration."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        client(spark)
    failure = classify_exception(raised.value)
    assert failure.reason == "BrokerUnreachable"
    assert not failure.permanent
    assert "name server" in failure.message


@EACH_CLIENT
def test_a_wrong_option_is_permanent(spark: SparkSession, client: Client) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        client(spark, **{"retry.backoff.ms": "soon"})
    failure = classify_exception(raised.value)
    assert failure.reason == "KafkaOptionInvalid"
    assert failure.permanent
    assert "retry.backoff.ms" in failure.message


SECRET = "card 4111"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CAST(value AS INT)", "CastInvalidInput"),
        ("reflect('java.lang.Integer', 'parseInt', value)", "NumberFormat"),
        ("raise_error(value)", "UserRaisedException"),
        # Spark throws it on the driver as it was thrown in the task: without a cause, and with the
        # frames of the caller after those of the task.
        ("to_number(value, '$999.99')", "InvalidFormat"),
        ("refuse(value)", "PythonFailed"),
    ],
)
def test_an_exception_over_a_record_does_not_show_it(
    spark: SparkSession, sql: str, reason: str
) -> None:
    def refuse(text: str) -> int:
        raise ValueError(text)

    spark.udf.register("refuse", refuse, "int")
    rows = spark.createDataFrame([(SECRET,)], "value STRING")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        rows.selectExpr(f"{sql} AS n").write.format("noop").mode("overwrite").save()
    assert SECRET in str(raised.value)
    failure = classify_exception(raised.value)
    assert failure.reason == reason
    assert failure.maybe_poison
    assert "4111" not in failure.message
    if reason == "PythonFailed":
        assert "ValueError in test_failures.py, line " in failure.message


def _failure_of(spark: SparkSession, folder: Path, **transform: object) -> Failure:
    """Why a continuous stream with this transform cannot be planned."""
    spec = stream(transform=transform).spec
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception is classified
        query.check(query.plan(spark, spec, LocalEnvironment(folder)), spec)
    return classify_exception(raised.value)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT no_such_column FROM source", "UnresolvedColumn"),
        ("SELEKT 1", "ParseSyntaxError"),
        ("SELECT current_timestamp() AS t FROM source", "UnsupportedOperation"),
    ],
)
def test_sql_that_spark_refuses_is_permanent(
    spark: SparkSession, sql: str, reason: str, tmp_path: Path
) -> None:
    failure = _failure_of(spark, tmp_path, sql=sql)
    assert (failure.reason, failure.permanent) == (reason, True)


@pytest.mark.parametrize(
    ("inline", "words"),
    [
        ("def f(source):\n    return 5\n", "streaming DataFrame"),
        ("def f(source):\n    raise KeyError('mine')\n", "KeyError: 'mine' (inline, line 2)"),
        ("import no_such_module\n", "no_such_module"),
        ("def f(source)\n", "SyntaxError"),
        ("x = 1\n", "has no f"),
    ],
)
def test_failing_python_is_reported_with_its_line(
    spark: SparkSession, inline: str, words: str, tmp_path: Path
) -> None:
    failure = _failure_of(spark, tmp_path, python={"function": "broken:f", "inline": inline})
    assert (failure.reason, failure.permanent) == ("PythonFailed", True)
    assert words in failure.message
