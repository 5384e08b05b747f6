"""Streams for the tests, short to write."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream

RATE: dict[str, Any] = {"rate": {"rowsPerSecond": 10, "numPartitions": 2}}
CONSOLE: dict[str, Any] = {"console": {}}
CONTINUOUS: dict[str, Any] = {"continuous": {"checkpointInterval": "1s"}}
MICRO_BATCH: dict[str, Any] = {"microBatch": {}}
ASYNC: dict[str, Any] = {"microBatch": {"asyncProgress": {"checkpointInterval": "300ms"}}}
REAL_TIME: dict[str, Any] = {"realTime": {"batchDuration": "5s"}}
AVAILABLE_NOW: dict[str, Any] = {"availableNow": {}}
# Those that run for ever, for tests that hold in each of them.
EACH_MODE = [
    pytest.param(CONTINUOUS, id="continuous"),
    pytest.param(MICRO_BATCH, id="micro-batch"),
    pytest.param(ASYNC, id="async"),
    pytest.param(REAL_TIME, id="real-time"),
]


def kafka_source(bootstrap: str = "kafka:9092", **more: Any) -> dict[str, Any]:
    """A source of one topic, `in`."""
    return {"kafka": {"bootstrapServers": bootstrap, "topics": ["in"], **more}}


def kafka_sink(bootstrap: str = "kafka:9092", **more: Any) -> dict[str, Any]:
    """A sink into one topic, `out`."""
    return {"kafka": {"bootstrapServers": bootstrap, "topic": "out", **more}}


def stream(
    source: dict[str, Any] = RATE,
    sink: dict[str, Any] = CONSOLE,
    interval: str = "1s",
    **spec: Any,
) -> ContinuousStream:
    """A continuous stream named `numbers` in the namespace `payments`."""
    return ContinuousStream.model_validate(
        {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "ContinuousStream",
            "metadata": {"name": "numbers", "namespace": "payments"},
            "spec": {
                "image": "penstock/spark:test",
                "source": source,
                "sink": sink,
                "trigger": {"continuous": {"checkpointInterval": interval}},
                **spec,
            },
        }
    )
