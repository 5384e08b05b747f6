"""How a query runs: its mode, its output mode, and whether it has a watermark."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """The modes of Spark's streaming engines. Each value is the field that selects the mode."""

    CONTINUOUS = "trigger.continuous"
    MICRO_BATCH = "trigger.microBatch"
    ASYNC = "trigger.microBatch with asyncProgress"
    REAL_TIME = "trigger.realTime"
    AVAILABLE_NOW = "trigger.availableNow"

    @property
    def has_long_running_tasks(self) -> bool:
        """Whether each partition has a task, and needs a core, all the time.

        In the other modes, which are all the micro-batch engine's, tasks take turns.
        """
        return self in (Mode.CONTINUOUS, Mode.REAL_TIME)


@dataclass(frozen=True)
class Execution:
    """One way of running a query: mode, output mode and watermark."""

    mode: Mode
    output_mode: str = "append"
    watermark: bool = False
    by_clause: bool = field(default=False, compare=False)
    """Whether the watermark is one of the query's own WATERMARK clause."""

    @property
    def in_batches(self) -> bool:
        """Whether the micro-batch engine runs it without restrictions."""
        return self.mode in (Mode.MICRO_BATCH, Mode.AVAILABLE_NOW)

    @property
    def may_keep_state(self) -> bool:
        """Whether the engine keeps state in it; in real-time mode since Spark 4.3."""
        return self.in_batches or self.mode is Mode.REAL_TIME

    def __str__(self) -> str:
        if not self.in_batches:
            return str(self.mode)
        named = "WATERMARK" if self.by_clause else "transform.watermark"
        mark = f" and {named}" if self.watermark else ""
        return f"{self.mode} with outputMode {self.output_mode}{mark}"


# What a message can recommend instead, in this order of preference.
EXECUTIONS: tuple[Execution, ...] = (
    Execution(Mode.CONTINUOUS),
    Execution(Mode.REAL_TIME, "update"),
    Execution(Mode.ASYNC),
    Execution(Mode.MICRO_BATCH),
    Execution(Mode.MICRO_BATCH, "append", watermark=True),
    Execution(Mode.MICRO_BATCH, "update"),
    Execution(Mode.MICRO_BATCH, "complete"),
)


def execution_of(spec: Any) -> Execution:
    """How the spec's query runs, with defaults applied. Real-time mode takes `update` only."""
    mode = spec.trigger.mode
    output = spec.output_mode or ("update" if mode is Mode.REAL_TIME else "append")
    return Execution(mode, output, watermark=spec.transform.watermark is not None)
