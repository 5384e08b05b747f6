"""The query's options and statements, without Spark."""

from typing import Any

import pytest

from penstock.driver import query
from tests.driver.streams import CONSOLE, RATE, kafka_sink, kafka_source, stream


def test_kafka_source_reads_with_low_latency_unless_told_otherwise() -> None:
    """fetch.max.wait.ms is what a record waits at the broker for in continuous mode."""
    _, options = query.source_options(stream(kafka_source()).spec.source)
    assert options["kafka.fetch.max.wait.ms"] == "2"
    assert options["kafka.fetch.min.bytes"] == "1"
    own = {"kafka.fetch.max.wait.ms": "50", "failOnDataLoss": "false"}
    _, options = query.source_options(stream(kafka_source(options=own)).spec.source)
    assert options["kafka.fetch.max.wait.ms"] == "50"
    assert options["failOnDataLoss"] == "false"


def test_kafka_source_options() -> None:
    source = stream(kafka_source(topics=["a", "b"], startingOffsets="earliest")).spec.source
    name, options = query.source_options(source)
    assert name == "kafka"
    assert options["kafka.bootstrap.servers"] == "kafka:9092"
    assert options["subscribe"] == "a,b"
    assert options["startingOffsets"] == "earliest"
    _, explicit = query.source_options(source, '{"a": {"0": 5}}')
    assert explicit["startingOffsets"] == '{"a": {"0": 5}}'


def test_kafka_sink_does_not_linger_unless_told_otherwise() -> None:
    name, options = query.sink_options(stream(sink=kafka_sink()).spec.sink)
    assert name == "kafka"
    assert options == {
        "kafka.linger.ms": "0", "kafka.bootstrap.servers": "kafka:9092", "topic": "out"
    }  # fmt: skip
    slow = kafka_sink(options={"kafka.linger.ms": "5"})
    assert query.sink_options(stream(sink=slow).spec.sink)[1]["kafka.linger.ms"] == "5"


def test_rate_and_console() -> None:
    spec = stream(RATE, {"console": {"numRows": 5, "truncate": False}}).spec
    assert query.source_options(spec.source) == (
        "rate", {"rowsPerSecond": "10", "numPartitions": "2"}
    )  # fmt: skip
    assert query.sink_options(spec.sink) == ("console", {"numRows": "5", "truncate": "false"})


@pytest.mark.parametrize(
    ("sink", "passed"),
    [
        # A passed-on `topic` or `partition` would send records back to where they came from.
        (kafka_sink(), ["key", "value"]),
        (CONSOLE, None),
    ],
)
def test_pass_through(sink: dict[str, Any], passed: list[str] | None) -> None:
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert query.passed_on(columns, stream(sink=sink).spec.sink) == passed


def test_functions_are_plain_sql() -> None:
    flagged = {
        "name": "isPaymentFlagged",
        "parameters": [{"name": "paymentId", "type": "BIGINT"}],
        "returns": "BOOLEAN",
        "expression": "paymentId % 100 = 7",
    }
    spec = stream(transform={"functions": [flagged]}).spec
    assert query.create_function(spec.transform.functions[0]) == (
        "CREATE OR REPLACE TEMPORARY FUNCTION isPaymentFlagged(paymentId BIGINT) "
        "RETURNS BOOLEAN RETURN paymentId % 100 = 7"
    )


@pytest.mark.parametrize(
    ("more", "latest"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"options": {"startingTimestamp": "1"}}, False),
    ],
)
def test_where_latest_is_made_explicit(more: dict[str, Any], latest: bool) -> None:
    assert query.begins_at_latest(stream(kafka_source(**more)).spec.source) is latest
    assert not query.begins_at_latest(stream(RATE).spec.source)


def test_trigger_interval() -> None:
    assert query.trigger_interval_ms(stream(interval="10 seconds").spec) == 10_000
