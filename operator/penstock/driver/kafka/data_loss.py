"""Records that a stream has not read and that Kafka no longer has: found before each start.

Spark compares offsets only. A topic that was deleted and made again under its name has offsets of
its own: Spark skips as many of its records as the old one had been read, without a word, whatever
failOnDataLoss says (measured with Spark 4.2, continuous and micro-batch). So topics are told apart
by their ids, which are kept beside the checkpoint, and offsets of another topic are not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

REASON = "DataLoss"
_ADVICE = (
    "To go on from what is there, set spec.source.kafka.failOnDataLoss to false; it can be set "
    "back once the stream runs"
)
_SHOWN = 5


@dataclass(frozen=True)
class Held:
    """What Kafka holds of the source's topics now."""

    ids: Mapping[str, str]
    earliest: Offsets
    newest: Offsets


@dataclass(frozen=True)
class Loss:
    """Why one partition cannot be gone on from where the stream was."""

    topic: str
    partition: int
    why: str
    records: int | None = None
    """How many records were not read; None where nobody knows, since their topic is gone."""

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}: {self.why}"


def find(committed: Offsets, ids: Mapping[str, str], held: Held) -> list[Loss]:
    """The losses among the committed partitions; `ids` are those of the topics they were read from.

    A topic that the stream no longer reads is not looked at.
    """
    return [
        loss
        for topic, offsets in sorted(committed.items())
        if topic in held.newest
        for partition, offset in sorted(offsets.items())
        if (loss := _loss(topic, partition, offset, ids.get(topic), held)) is not None
    ]


def _loss(topic: str, partition: int, offset: int, known: str | None, held: Held) -> Loss | None:
    if known is not None and known != held.ids.get(topic, known):
        why = "the topic was deleted and made again; what was not read of the old one is gone"
        return Loss(topic, partition, why)
    if partition not in held.newest[topic]:  # no longer assigned: a topic never shrinks
        return None
    earliest, newest = held.earliest[topic][partition], held.newest[topic][partition]
    if offset < earliest:
        gone = earliest - offset
        return Loss(topic, partition, f"{gone} records were deleted before they were read", gone)
    if offset > newest:
        why = f"it ends at {newest}, before offset {offset}, which was reached: it was made again"
        return Loss(topic, partition, why)
    return None


def realigned(committed: Offsets, losses: Iterable[Loss], held: Held) -> Offsets:
    """The offsets to go on from: of a lost partition the earliest, or none if it is no more."""
    lost = {(loss.topic, loss.partition) for loss in losses}

    def put_right(topic: str, partition: int, offset: int) -> int | None:
        if (topic, partition) not in lost:
            return offset
        return held.earliest[topic].get(partition)

    return {
        topic: {
            partition: right
            for partition, offset in offsets.items()
            if (right := put_right(topic, partition, offset)) is not None
        }
        for topic, offsets in committed.items()
    }


def refused(losses: list[Loss]) -> DriverError:
    """What is raised under failOnDataLoss: a person has to say that the loss is accepted."""
    return DriverError(
        Failure(REASON, f"Unread records are gone from Kafka. {_list(losses)}. {_ADVICE}", True)
    )


def accepted(losses: list[Loss]) -> Failure:
    """What is told where the spec has accepted the loss."""
    known = [loss.records for loss in losses if loss.records is not None]
    count = (
        f"{sum(known)} records" if len(known) == len(losses) else "Records, nobody knows how many,"
    )
    return Failure(
        REASON,
        f"{count} were gone from Kafka before they were read. {_list(losses)}. As "
        "failOnDataLoss: false says, the stream goes on from the earliest there is",
    )


def _list(losses: list[Loss]) -> str:
    shown = "; ".join(map(str, losses[:_SHOWN]))
    more = len(losses) - _SHOWN
    return f"{shown}; and {more} more partitions" if more > 0 else shown
