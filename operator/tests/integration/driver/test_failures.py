"""What real exceptions of Spark and of Kafka's clients are taken for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.driver.exceptions.classify import classify_exception

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
    """The producer of a task."""
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
