"""The engine of Spark that runs a spec."""

from __future__ import annotations

from enum import Enum

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
