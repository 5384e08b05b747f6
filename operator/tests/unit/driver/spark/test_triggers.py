"""Triggers in Spark's words."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.engine import Engine, engine_of, is_asynchronous, trigger_interval_ms
from penstock.driver.spark.triggers import output_mode, trigger_arguments, trigger_options
from testkit.streams.streams import ASYNC, AVAILABLE_NOW, kafka_sink, kafka_source, stream


def spec(trigger: dict[str, Any], **more: Any) -> StreamSpec:
    return stream(kafka_source(), kafka_sink(), trigger=trigger, **more).spec


@pytest.mark.parametrize(
    ("trigger", "engine", "arguments", "interval"),
    [
        (
            {"continuous": {"checkpointInterval": "10 seconds"}},
            Engine.CONTINUOUS,
            {"continuous": "10000 milliseconds"},
            10_000,
        ),
        ({"microBatch": {}}, Engine.MICRO_BATCH, {"processingTime": "0 milliseconds"}, 0),
        (
            {"microBatch": {"interval": "2s"}},
            Engine.MICRO_BATCH,
            {"processingTime": "2000 milliseconds"},
            2_000,
        ),
        (ASYNC, Engine.MICRO_BATCH, {"processingTime": "0 milliseconds"}, 300),
        (
            {"realTime": {"batchDuration": "5m"}},
            Engine.REAL_TIME,
            {"realTime": "300000 milliseconds"},
            300_000,
        ),
        (AVAILABLE_NOW, Engine.MICRO_BATCH, {"availableNow": True}, 0),
    ],
)
def test_triggers(
    trigger: dict[str, Any], engine: Engine, arguments: dict[str, Any], interval: int
) -> None:
    made = spec(trigger)
    assert engine_of(made) is engine
    assert trigger_arguments(made) == arguments
    assert trigger_interval_ms(made) == interval


def test_async_progress_is_an_option_of_the_sink() -> None:
    assert trigger_options(spec(ASYNC)) == {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": "300",
    }
    assert is_asynchronous(spec(ASYNC))
    assert trigger_options(spec({"microBatch": {}})) == {}


def test_output_mode() -> None:
    assert output_mode(spec({"microBatch": {}})) == "append"
    assert output_mode(spec({"microBatch": {}}, outputMode="complete")) == "complete"
    assert output_mode(spec({"realTime": {}})) == "update"
