"""The options of Spark's sinks, and the SQL functions' statements, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.driver.spark.query import sink_options
from penstock.driver.spark.transforms import create_function
from penstock.sql.columns import passed_columns
from testkit.streams.streams import CONSOLE, kafka_sink, stream


def test_kafka_does_not_linger_by_default() -> None:
    name, options = sink_options(stream(sink=kafka_sink()).spec.sink, Path())
    assert name == "kafka"
    assert options == {
        "kafka.linger.ms": "0",
        "kafka.bootstrap.servers": "kafka:9092",
        "topic": "out",
    }
    slow = kafka_sink(options={"kafka.linger.ms": "5"})
    _, options = sink_options(stream(sink=slow).spec.sink, Path())
    assert options["kafka.linger.ms"] == "5"


@pytest.mark.parametrize(
    ("sink", "made"),
    [
        (
            {"console": {"numRows": 5, "truncate": False}},
            ("console", {"numRows": "5", "truncate": "false"}),
        ),
        ({"noop": {}}, ("noop", {})),
        ({"memory": {}}, ("memory", {})),
        (
            {"custom": {"format": "my.module:Sink", "options": {"a": "b"}}},
            ("my.module:Sink", {"a": "b"}),
        ),
    ],
)
def test_other_sinks(sink: dict[str, Any], made: tuple[str, dict[str, str]]) -> None:
    assert sink_options(stream(sink=sink).spec.sink, Path()) == made


def test_a_topic_column_needs_no_topic() -> None:
    sink = {"kafka": {"bootstrapServers": "kafka:9092"}}
    assert "topic" not in sink_options(stream(sink=sink).spec.sink, Path())[1]


@pytest.mark.parametrize(
    ("sink", "passed"),
    [
        # `topic` or `partition` would send records back to their own topic.
        (kafka_sink(), ["key", "value"]),
        (CONSOLE, None),
    ],
)
def test_passed_columns(sink: dict[str, Any], passed: list[str] | None) -> None:
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert passed_columns(columns, stream(sink=sink).spec.sink) == passed


def test_functions_are_plain_sql() -> None:
    flagged = {
        "name": "isPaymentFlagged",
        "parameters": [{"name": "paymentId", "type": "BIGINT"}],
        "returns": "BOOLEAN",
        "expression": "paymentId % 100 = 7",
    }
    spec = stream(transform={"functions": [flagged]}).spec
    assert create_function(spec.transform.functions[0]) == (
        "CREATE OR REPLACE TEMPORARY FUNCTION isPaymentFlagged(paymentId BIGINT) "
        "RETURNS BOOLEAN RETURN paymentId % 100 = 7"
    )
