"""Trigger, output mode, query name and sink, in Spark's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.api.modes import Mode, execution_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.spark.query import (
    query_name,
    trigger_arguments,
    trigger_options,
)
from penstock.driver.spark.sinks import sink_options
from testkit.streams.streams import (
    ASYNC,
    AVAILABLE_NOW,
    CONSOLE,
    CONTINUOUS,
    RATE,
    kafka_sink,
    kafka_source,
    stream,
)


def spec(trigger: dict[str, Any], **more: Any) -> StreamSpec:
    return stream(kafka_source(), kafka_sink(), trigger=trigger, **more).spec


@pytest.mark.parametrize(
    ("trigger", "mode", "arguments", "interval"),
    [
        (
            {"continuous": {"checkpointInterval": "10 seconds"}},
            Mode.CONTINUOUS,
            {"continuous": "10000 milliseconds"},
            10_000,
        ),
        ({"microBatch": {}}, Mode.MICRO_BATCH, {"processingTime": "0 milliseconds"}, 0),
        (
            {"microBatch": {"interval": "2s"}},
            Mode.MICRO_BATCH,
            {"processingTime": "2000 milliseconds"},
            2_000,
        ),
        (ASYNC, Mode.ASYNC, {"processingTime": "0 milliseconds"}, 300),
        (
            {"realTime": {"batchDuration": "5m"}},
            Mode.REAL_TIME,
            {"realTime": "300000 milliseconds"},
            300_000,
        ),
        (AVAILABLE_NOW, Mode.AVAILABLE_NOW, {"availableNow": True}, 0),
    ],
)
def test_triggers(
    trigger: dict[str, Any], mode: Mode, arguments: dict[str, Any], interval: int
) -> None:
    made = spec(trigger)
    assert made.trigger.mode is mode
    assert trigger_arguments(made) == arguments
    assert made.trigger.commit_interval_ms == interval


def test_async_progress_is_an_option_of_the_sink() -> None:
    assert trigger_options(spec(ASYNC)) == {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": "300",
    }
    assert trigger_options(spec({"microBatch": {}})) == {}


def test_output_mode() -> None:
    def output_mode(trigger: dict[str, Any], **more: Any) -> str:
        return execution_of(spec(trigger, **more)).output_mode

    assert output_mode({"microBatch": {}}) == "append"
    counts = {"sql": "SELECT count(*) AS n FROM source"}
    found = output_mode({"microBatch": {}}, outputMode="complete", transform=counts)
    assert found == "complete"
    assert output_mode({"realTime": {}}) == "update"


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "fraud-flags"),
        ({"queryName": "Flags.v2"}, "Flags.v2"),
        # The memory sink's table has the query's name, so SQL must be able to parse it.
        ({"sink": {"memory": {}}}, "fraud_flags"),
        ({"sink": {"memory": {}}, "queryName": "rows.v2"}, "rows_v2"),
    ],
)
def test_query_name(more: dict[str, Any], name: str) -> None:
    it = StreamSpec.model_validate({"source": RATE, "sink": CONSOLE, "trigger": CONTINUOUS, **more})
    assert query_name(it, "fraud-flags") == name


def test_kafka_does_not_linger_by_default() -> None:
    assert sink_options(stream(sink=kafka_sink()).spec.sink, Path(), "ours")[0] == "ours"
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
