"""How a query runs: which of Spark's engines, how often it commits, what it writes."""

from __future__ import annotations

from enum import Enum
from typing import Any

from penstock.stream.quantities import milliseconds
from penstock.stream.spec import StreamSpec


class Mode(Enum):
    """Spark's engines, as far as what they leave in a checkpoint and how they show progress."""

    CONTINUOUS = "trigger.continuous"
    MICRO_BATCH = "trigger.microBatch"
    """Also availableNow: the same engine, which ends."""
    REAL_TIME = "trigger.realTime"


def mode(spec: StreamSpec) -> Mode:
    """The engine that the trigger asks for."""
    if spec.trigger.continuous is not None:
        return Mode.CONTINUOUS
    return Mode.REAL_TIME if spec.trigger.real_time is not None else Mode.MICRO_BATCH


def is_asynchronous(spec: StreamSpec) -> bool:
    """Whether offsets are written beside the batches, which leaves gaps in the logs."""
    batch = spec.trigger.micro_batch
    return batch is not None and batch.async_progress is not None


def trigger_interval_ms(spec: StreamSpec) -> int:
    """How often progress is committed, where there are records all the time."""
    trigger = spec.trigger
    if trigger.continuous is not None:
        return milliseconds(trigger.continuous.checkpoint_interval)
    if trigger.real_time is not None:
        return milliseconds(trigger.real_time.batch_duration)
    if trigger.micro_batch is not None:
        batch = trigger.micro_batch
        beside = batch.async_progress
        interval = milliseconds(batch.interval)
        return max(interval, milliseconds(beside.checkpoint_interval)) if beside else interval
    return 0  # availableNow: batch after batch until it ends


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
    """What of the trigger Spark wants as options of the sink ("Asynchronous Progress Tracking")."""
    batch = spec.trigger.micro_batch
    if batch is None or batch.async_progress is None:
        return {}
    interval = milliseconds(batch.async_progress.checkpoint_interval)
    return {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": str(interval),
    }


def output_mode(spec: StreamSpec) -> str:
    """Which rows are written; real-time mode knows `update` only."""
    return spec.output_mode or ("update" if mode(spec) is Mode.REAL_TIME else "append")


def _spark_interval(duration: str) -> str:
    """Kubernetes' spelling, 500ms, is not one that Spark reads."""
    return f"{milliseconds(duration)} milliseconds"
