"""Where the progress of a stream is stored."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    cel_string,
    cel_text,
    cel_unchanged,
    in_cel_only,
    is_set,
    not_together,
    takes_exactly_one,
)
from penstock.api.v1alpha1.base import ByteQuantity, SpecObject, checked_by, text_like
from penstock.api.v1alpha1.object_store import ObjectStore
from penstock.api.v1alpha1.sources import ConsumerGroupName, SomeOffsetsByPartition

VOLUME_SIZE = "1Gi"

_REMEDY = "delete the stream and its PersistentVolumeClaim, and apply the stream again"


_NEW_SIZE, _OLD_SIZE = (
    cel_text(f"{each}.checkpoint.volume.size", cel_string(VOLUME_SIZE))
    for each in ("self", "oldSelf")
)

_IS_FIRST_GENERATION = Predicate(
    "!has(self.checkpoint.generation) || self.checkpoint.generation == 0",
    lambda spec: spec.checkpoint.generation == 0,
)
# Rules of the whole spec.
GENERATION_RULES: tuple[ValidationRule, ...] = (
    ValidationRule(
        ~is_set("checkpoint.startFrom") | is_set("source.kafka"),
        "checkpoint.startFrom needs source.kafka: remove it, since the generation of another "
        "source begins where the source does",
    ),
    # Without it, a new generation would begin at startingOffsets, which skips records, or reads
    # all of them again.
    ValidationRule(
        ~is_set("checkpoint")
        | ~is_set("source.kafka")
        | _IS_FIRST_GENERATION
        | is_set("checkpoint.startFrom"),
        "checkpoint.generation needs checkpoint.startFrom: say where it begins, for example "
        "startFrom.generation, the generation before",
    ),
)

# Rules of the whole spec: a rule of the volume could be evaded by removing `checkpoint` in one
# update and adding it in the next, because a rule on an update needs both values.
UPDATE_RULES: tuple[ValidationRule, ...] = (
    ValidationRule(
        in_cel_only(cel_unchanged("checkpoint.volume.storageClassName")),
        f"checkpoint.volume.storageClassName cannot be changed, added or removed: {_REMEDY}",
    ),
    ValidationRule(
        # A malformed size breaks a rule of its own.
        in_cel_only(
            f"!isQuantity({_NEW_SIZE}) || "
            f"quantity({_NEW_SIZE}).compareTo(quantity({_OLD_SIZE})) >= 0"
        ),
        f"checkpoint.volume.size cannot shrink (default: {VOLUME_SIZE}): keep the old size "
        f"or more, or {_REMEDY}",
    ),
    # It is required in an objectStore, so the rule is also about a change from and to a volume.
    ValidationRule(
        in_cel_only(cel_unchanged("checkpoint.objectStore.location")),
        "checkpoint.objectStore.location cannot be changed, added or removed: note "
        "status.committedOffsets, delete the stream, and apply it again with them as startFrom",
    ),
)


def in_milliseconds(timestamp: str) -> int:
    """A time of RFC 3339 in milliseconds since 1970; raises ValueError if there is no such time.

    >>> in_milliseconds("2026-11-26T08:00:00.5Z")
    1795680000500
    """
    text = re.sub(r"\.([0-9]+)", lambda fraction: f".{fraction[1]:0<6.6}", timestamp.upper())
    try:
        since = round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError as error:
        raise ValueError(f"{timestamp} is no time: {error}") from error
    if since < 0:
        raise ValueError(f"{timestamp} is before 1970")
    return since


class CheckpointVolume(SpecObject):
    """A PersistentVolumeClaim that belongs to the stream, not to its pod."""

    size: ByteQuantity = Field(
        VOLUME_SIZE,
        description=f"Its size. Logs are small; state needs its size twice, and room for changes. "
        f"It can grow, if the storage class allows, and never shrinks. Default: {VOLUME_SIZE}.",
        examples=[VOLUME_SIZE],
    )
    storage_class_name: (
        Annotated[
            str,
            text_like(
                r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
                "takes a-z, 0-9, '-' and '.', and begins and ends with a letter or a digit",
                max_length=253,
            ),
        ]
        | None
    ) = Field(
        None,
        description="Its storage class. Default: the cluster's default class.",
    )
    reclaim_policy: Literal["Retain", "Delete"] = Field(
        "Retain",
        description=(
            "What happens to the volume when the stream is deleted. Retain: it stays, and a new "
            "stream with the same name continues from it. Delete: it is deleted as well. "
            "Default: Retain."
        ),
    )
    adopt: bool = Field(
        False,
        description="Whether to use an existing PersistentVolumeClaim `<name>-checkpoint` that "
        "Penstock did not create, such as a restored one. It is then deleted with the stream "
        "under Delete. Default: false.",
    )


Generation = Annotated[int, Field(ge=0, le=2**31 - 1)]


class StartFrom(SpecObject):
    """Where a generation of the checkpoint begins to read, at its first start."""

    rules = (
        takes_exactly_one(
            "spec.checkpoint.startFrom",
            "generation",
            "offsets",
            "offsetsByPartition",
            "timestamp",
            "consumerGroup",
        ),
    )

    generation: Generation | None = Field(
        None,
        description="The committed offsets of this generation of the stream: nothing is skipped, "
        "and only what it has not committed is read again.",
        examples=[0],
    )
    offsets: Literal["earliest", "latest"] | None = Field(
        None, description="The first records that Kafka still has, or its newest offsets."
    )
    offsets_by_partition: SomeOffsetsByPartition | None = Field(
        None,
        description="By topic and partition: an offset, -2 for the earliest or -1 for the latest. "
        "Every partition must be named.",
        examples=[{"payments": {"0": 23, "1": -2}}],
    )
    timestamp: (
        Annotated[
            str,
            text_like(
                r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?"
                r"([Zz]|[+-][0-9]{2}:[0-9]{2})$",
                "takes a time with its zone: write for example 2026-11-26T08:00:00Z",
                max_length=64,
            ),
            checked_by(in_milliseconds),
        ]
        | None
    ) = Field(
        None,
        description="The first record of each partition with this Kafka timestamp or a later one; "
        "the end of a partition that has none.",
        examples=["2026-11-26T08:00:00Z"],
    )
    consumer_group: ConsumerGroupName | None = Field(
        None,
        description="Where this consumer group has committed: that of another application, or of "
        "another stream (source.kafka.consumerGroup). What it commits once the generation has "
        "begun does not count. A partition without an "
        "offset is read from its earliest record. Needs Describe on the group.",
        examples=["fraud-flags-by-flink"],
    )

    @property
    def timestamp_ms(self) -> int | None:
        """The timestamp in milliseconds since 1970."""
        return None if self.timestamp is None else in_milliseconds(self.timestamp)


class Checkpoint(SpecObject):
    """Where the stream's progress is stored: on a volume, or in an object store."""

    rules = (
        ValidationRule(
            not_together("volume", "objectStore"),
            "spec.checkpoint takes volume or objectStore, not both: remove one",
        ),
        ValidationRule(
            ~is_set("startFrom.generation")
            | Predicate(
                "self.startFrom.generation != (has(self.generation) ? self.generation : 0)",
                lambda checkpoint: checkpoint.start_from.generation != checkpoint.generation,
            ),
            "startFrom.generation is the generation itself: name the one to go on from",
        ),
    )
    volume: CheckpointVolume | None = Field(
        None,
        description=f"A volume for this stream alone. Default: {VOLUME_SIZE}, retained, unless "
        "there is an objectStore.",
    )
    object_store: ObjectStore | None = Field(
        None,
        description="An object store instead of a volume. Neither can be changed into the other. "
        "Default: none.",
    )
    state_partitions: Annotated[int, Field(ge=2, le=1024)] | None = Field(
        None,
        description="Partitions of the state of a query that keeps some: no more cores can work "
        "on it. They are also those of the query's other shuffles. If it is changed, Spark divides "
        "the state anew before the query goes on, so it reads and writes all of it. Default: what "
        "the checkpoint began with, which is the number of cores, and at least 4; in real-time "
        "mode, where each takes a core, that of the source's partitions, from 2 to 4.",
        examples=[16],
    )
    generation: Generation = Field(
        0,
        description="Which checkpoint of the volume or location the stream has. Another number "
        "begins a new one, at `startFrom`, beside those that are there; one that is there is "
        "continued. To go back, set an earlier number. Default: 0.",
    )
    start_from: StartFrom | None = Field(
        None,
        description="Where a generation begins, instead of the source's startingOffsets; it counts "
        "until the generation has committed. Default: startingOffsets, for generation 0.",
    )

    @property
    def claimed_volume(self) -> CheckpointVolume | None:
        """The volume that the stream has; None with an object store."""
        return None if self.object_store is not None else self.volume or CheckpointVolume()
