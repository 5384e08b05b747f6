"""How a query runs."""

from __future__ import annotations

from pydantic import Field, field_validator

from penstock.api.quantities import DURATION_PATTERN, SPARK_TO_KUBERNETES, milliseconds
from penstock.api.rules import Rule, cel_string, exactly_one_of, rules_of_scalar
from penstock.api.v1alpha1.base import DURATION_RULE, Duration, SpecObject

# Spark refuses shorter ones (Structured Streaming, "Real-time Mode").
SHORTEST_REAL_TIME_BATCH_MS = 5000

# CEL for the duration in the spelling of Kubernetes, which its duration() reads.
_AS_KUBERNETES = "self" + "".join(
    f".replace({cel_string(spark)}, {cel_string(kubernetes)})"
    for spark, kubernetes in SPARK_TO_KUBERNETES
)


def _at_least(least_ms: int, message: str) -> Rule:
    """A rule on a duration. DURATION_RULE refuses what is none."""
    return Rule(
        cel=f"!self.matches({cel_string(DURATION_PATTERN)}) || "
        f"duration({_AS_KUBERNETES}) >= duration('{least_ms}ms')",
        message=message,
        holds=lambda duration: milliseconds(duration) >= least_ms,
    )


POSITIVE = _at_least(1, "checkpointInterval must be longer than 0: write for example 1s")
LONG_ENOUGH = _at_least(
    SHORTEST_REAL_TIME_BATCH_MS, "batchDuration must be at least 5s: Spark refuses shorter ones"
)


def _checked(duration: str, rule: Rule) -> str:
    refusal = rule.refusal(duration)
    if refusal is not None:
        raise ValueError(refusal)
    return duration


class ContinuousTrigger(SpecObject):
    """Spark's continuous engine: records flow one by one, milliseconds from end to end."""

    checkpoint_interval: Duration = Field(
        description=(
            "How often an epoch is committed to the checkpoint; after a crash at most this much "
            "is replayed. A number and a unit: ms, s, m, h or Spark's words."
        ),
        examples=["1s", "10 seconds"],
        json_schema_extra=rules_of_scalar(DURATION_RULE, POSITIVE),
    )

    @field_validator("checkpoint_interval")
    @classmethod
    def _positive(cls, interval: str) -> str:
        return _checked(interval, POSITIVE)


class AsyncProgress(SpecObject):
    """Offsets are written beside the batches and not between them."""

    checkpoint_interval: Duration = Field(
        "1s",
        description="How often offsets and commits are written; after a crash this much is "
        "replayed. Default: 1s.",
    )


class MicroBatchTrigger(SpecObject):
    """Spark's micro-batch engine: every operation, tenths of a second from end to end."""

    interval: Duration = Field(
        "0s",
        description="How often a batch begins; 0s begins one as soon as the last has ended. "
        "Default: 0s.",
    )
    async_progress: AsyncProgress | None = Field(
        None,
        description="Asynchronous progress tracking: lower latency, for a stateless query into "
        "Kafka. Turning it off again is done safely. Default: off.",
    )


class RealTimeTrigger(SpecObject):
    """Spark's real-time mode: the best median latency, with pauses where two batches meet."""

    batch_duration: Duration = Field(
        "5m",
        description="How long one batch lasts, at least 5s; after a crash at most this much is "
        "replayed. Default: 5m.",
        json_schema_extra=rules_of_scalar(DURATION_RULE, LONG_ENOUGH),
    )

    @field_validator("batch_duration")
    @classmethod
    def _long_enough(cls, duration: str) -> str:
        return _checked(duration, LONG_ENOUGH)


class AvailableNowTrigger(SpecObject):
    """Reads what is there, in batches, and ends as Completed."""


class Trigger(SpecObject):
    """How the query runs."""

    rules = (
        exactly_one_of(
            "spec.trigger",
            continuous="continuous",
            micro_batch="microBatch",
            real_time="realTime",
            available_now="availableNow",
        ),
    )
    continuous: ContinuousTrigger | None = Field(
        None, description="Record by record, with an epoch committed each interval."
    )
    micro_batch: MicroBatchTrigger | None = Field(None, description="Batch after batch.")
    real_time: RealTimeTrigger | None = Field(
        None, description="Record by record inside long batches."
    )
    available_now: AvailableNowTrigger | None = Field(
        None, description="A bounded catch-up that ends."
    )
