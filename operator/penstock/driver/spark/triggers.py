"""Trigger and output mode, in Spark's terms."""

from __future__ import annotations

from typing import Any

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.engine import Engine, engine_of


def trigger_arguments(spec: StreamSpec) -> dict[str, Any]:
    """The arguments of DataStreamWriter.trigger."""
    trigger = spec.trigger
    if trigger.continuous is not None:
        return {"continuous": _spark_interval(trigger.continuous.checkpoint_interval)}
    if trigger.real_time is not None:
        return {"realTime": _spark_interval(trigger.real_time.batch_duration)}
    if trigger.micro_batch is not None:
        return {"processingTime": _spark_interval(trigger.micro_batch.interval)}
    return {"availableNow": True}


def trigger_options(spec: StreamSpec) -> dict[str, str]:
    """What Spark takes as options of the sink ("Asynchronous Progress Tracking")."""
    batch = spec.trigger.micro_batch
    if batch is None or batch.async_progress is None:
        return {}
    interval = milliseconds(batch.async_progress.checkpoint_interval)
    return {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": str(interval),
    }


def output_mode(spec: StreamSpec) -> str:
    """Which rows are written. Real-time mode takes `update` only."""
    return spec.output_mode or ("update" if engine_of(spec) is Engine.REAL_TIME else "append")


def _spark_interval(duration: str) -> str:
    """Spark does not read Kubernetes' spelling, such as 500ms."""
    return f"{milliseconds(duration)} milliseconds"
