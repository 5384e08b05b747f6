"""The trigger: the mode of a query and its interval."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.api.modes import Mode
from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    cel_string,
    rules_of_scalar,
    takes_exactly_one,
)
from penstock.api.quantities import DURATION_PATTERN, SPARK_TO_KUBERNETES, milliseconds
from penstock.api.v1alpha1.base import DURATION_RULE, Duration, SpecObject

# Spark's own least, 5 s, is for a reader that connects anew for each batch.
SHORTEST_REAL_TIME_BATCH_MS = 1000

# CEL: the duration in the spelling of Kubernetes, the only one that CEL's duration() reads.
_AS_KUBERNETES = "self" + "".join(
    f".replace({cel_string(spark)}, {cel_string(kubernetes)})"
    for spark, kubernetes in SPARK_TO_KUBERNETES
)


def _at_least(least_ms: int, message: str) -> ValidationRule:
    """A minimum. It holds for a text that is not a duration: DURATION_RULE refuses that."""
    cel = (
        f"!self.matches({cel_string(DURATION_PATTERN)}) || "
        f"duration({_AS_KUBERNETES}) >= duration('{least_ms}ms')"
    )
    return ValidationRule(
        Predicate(cel, lambda duration: milliseconds(duration) >= least_ms), message
    )


POSITIVE = _at_least(1, "checkpointInterval must be longer than 0: write for example 1s")
LONG_ENOUGH = _at_least(
    SHORTEST_REAL_TIME_BATCH_MS,
    "batchDuration must be at least 1s: a shorter batch is mostly its end",
)


class ContinuousTrigger(SpecObject):
    """Spark's continuous engine: record by record, with latencies of milliseconds."""

    checkpoint_interval: Annotated[Duration, AfterValidator(POSITIVE.check)] = Field(
        description=(
            "How often an epoch is committed to the checkpoint. After a crash, the records since "
            "the last commit are replayed. A duration in the spelling of Kubernetes (500ms, 1m30s) "
            "or Spark (10 seconds)."
        ),
        examples=["1s", "10 seconds"],
        json_schema_extra=rules_of_scalar(DURATION_RULE, POSITIVE),
    )


class AsyncProgress(SpecObject):
    """Offsets are written in parallel with the batches instead of between them."""

    checkpoint_interval: Duration = Field(
        "1s",
        description="How often offsets and commits are written. After a crash, the records since "
        "the last commit are replayed. Default: 1s.",
    )


class MicroBatchTrigger(SpecObject):
    """Spark's micro-batch engine: all operations, with latencies of tenths of a second."""

    interval: Duration = Field(
        "0s",
        description="How often a batch starts. 0s: as soon as the previous batch has ended. "
        "Default: 0s.",
    )
    async_progress: AsyncProgress | None = Field(
        None,
        description="Asynchronous progress tracking: lower latency for stateless queries that "
        "write to Kafka. It can be removed again safely. Default: off.",
    )


class RealTimeTrigger(SpecObject):
    """Spark's real-time mode: record by record, with a short pause between two batches."""

    batch_duration: Annotated[Duration, AfterValidator(LONG_ENOUGH.check)] = Field(
        "10s",
        description="How long one batch lasts, at least 1s. After a crash, the unfinished batch is "
        "replayed; between two batches, records wait for some hundredths of a second. Default: "
        "10s.",
        json_schema_extra=rules_of_scalar(DURATION_RULE, LONG_ENOUGH),
    )


class AvailableNowTrigger(SpecObject):
    """Processes the records that exist at the start, in batches. The stream ends as Completed."""


class Trigger(SpecObject):
    """The mode of the query: exactly one of these."""

    rules = (
        takes_exactly_one("spec.trigger", "continuous", "microBatch", "realTime", "availableNow"),
    )
    continuous: ContinuousTrigger | None = Field(
        None, description="Continuous mode: record by record, with a commit in each interval."
    )
    micro_batch: MicroBatchTrigger | None = Field(
        None, description="Micro-batch mode: one batch after another."
    )
    real_time: RealTimeTrigger | None = Field(
        None,
        description="Real-time mode: record by record, with a commit at the end of each batch.",
    )
    available_now: AvailableNowTrigger | None = Field(
        None, description="Processes what exists at the start, and ends."
    )

    @property
    def mode(self) -> Mode:
        """The mode that the trigger selects."""
        if self.continuous is not None:
            return Mode.CONTINUOUS
        if self.real_time is not None:
            return Mode.REAL_TIME
        if self.micro_batch is None:
            return Mode.AVAILABLE_NOW
        return Mode.MICRO_BATCH if self.async_progress is None else Mode.ASYNC

    @property
    def async_progress(self) -> AsyncProgress | None:
        """Asynchronous progress tracking, which leaves gaps in the checkpoint's logs."""
        return None if self.micro_batch is None else self.micro_batch.async_progress

    @property
    def interval(self) -> str:
        """How often an epoch or a batch begins; 0s: when the previous one has ended."""
        if self.continuous is not None:
            return self.continuous.checkpoint_interval
        if self.real_time is not None:
            return self.real_time.batch_duration
        return "0s" if self.micro_batch is None else self.micro_batch.interval

    @property
    def commit_interval_ms(self) -> int:
        """Milliseconds between commits while there are always records; 0: as batches end."""
        tracking = self.async_progress
        return max(
            milliseconds(self.interval),
            0 if tracking is None else milliseconds(tracking.checkpoint_interval),
        )
