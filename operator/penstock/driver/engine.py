"""The engine of Spark that runs a spec, and how often it commits."""

from __future__ import annotations

from enum import Enum

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import StreamSpec


class Engine(Enum):
    """Spark's engines, which differ in their checkpoints and in how they show progress."""

    CONTINUOUS = "trigger.continuous"
    MICRO_BATCH = "trigger.microBatch"
    """Also for availableNow: the same engine, which ends."""
    REAL_TIME = "trigger.realTime"


def engine_of(spec: StreamSpec) -> Engine:
    """The engine of the spec's trigger."""
    if spec.trigger.continuous is not None:
        return Engine.CONTINUOUS
    return Engine.REAL_TIME if spec.trigger.real_time is not None else Engine.MICRO_BATCH


def is_asynchronous(spec: StreamSpec) -> bool:
    """Whether progress is tracked asynchronously, which leaves gaps in the logs."""
    batch = spec.trigger.micro_batch
    return batch is not None and batch.async_progress is not None


def trigger_interval_ms(spec: StreamSpec) -> int:
    """Milliseconds between commits while there are always records."""
    trigger = spec.trigger
    if trigger.continuous is not None:
        return milliseconds(trigger.continuous.checkpoint_interval)
    if trigger.real_time is not None:
        return milliseconds(trigger.real_time.batch_duration)
    if trigger.micro_batch is not None:
        batch = trigger.micro_batch
        tracking = batch.async_progress
        interval = milliseconds(batch.interval)
        return max(interval, milliseconds(tracking.checkpoint_interval)) if tracking else interval
    return 0  # availableNow: one batch after another until it ends
