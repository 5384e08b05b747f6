"""Finds records that Kafka deleted before the stream read them: at each start, and while it runs.

Spark compares offsets only. A topic that was deleted and created again under the same name has new
offsets: Spark silently skips as many of its records as it had read of the old topic, whatever
failOnDataLoss says (measured with Spark 4.2, continuous and micro-batch). So the ids of the topics
are noted beside the checkpoint, and the offsets of a topic with another id are not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import EARLIEST, Offsets

REASON = "DataLoss"
_ADVICE = (
    "To continue with the records that are left, set spec.source.kafka.failOnDataLoss to false. "
    "You can set it back once the stream runs."
)
_MAX_SHOWN = 5


@dataclass(frozen=True)
class KafkaSnapshot:
    """The source's topics at one moment."""

    ids: Mapping[str, str]
    earliest: Offsets
    newest: Offsets
    """Where each partition ends for the stream's reader: with read_committed before the first
    transaction that is open."""
    uncommitted_ends: Offsets | None = None
    """Where each partition's log ends, of a reader that may not read up to there."""

    @property
    def log_ends(self) -> Offsets:
        """Where each partition's log ends: Kafka has no record after that, and had none."""
        return self.newest if self.uncommitted_ends is None else self.uncommitted_ends

    def only(self, partitions: Mapping[str, Collection[int]]) -> KafkaSnapshot:
        """What it says of these partitions, and of all topics."""

        def of(offsets: Offsets) -> Offsets:
            return {t: {n: offsets[t][n] for n in numbers} for t, numbers in partitions.items()}

        uncommitted_ends = None if self.uncommitted_ends is None else of(self.uncommitted_ends)
        return KafkaSnapshot(self.ids, of(self.earliest), of(self.newest), uncommitted_ends)


@dataclass(frozen=True)
class Loss:
    """A partition that cannot be read on from the stream's offset."""

    topic: str
    partition: int
    why: str
    records: int | None = None
    """The number of lost records; None if it is unknown."""
    ends: int | None = None
    """Where the log ends that brokers have cut: the stream goes on there."""

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}: {self.why}"


def find_losses(
    committed: Offsets, known_ids: Mapping[str, str], snapshot: KafkaSnapshot, *, whole: bool = True
) -> list[Loss]:
    """The losses among the partitions that the stream has read, and still reads.

    `known_ids` are the ids of the topics that the offsets belong to. `whole`: it reads all
    partitions of its topics, so one that was added while nothing ran is read from its beginning.
    """
    losses = []
    for topic, offsets in sorted(committed.items()):
        known_id = known_ids.get(topic)
        of_topic = [_loss(topic, n, at, known_id, snapshot) for n, at in offsets.items()]
        losses += [loss for loss in of_topic if loss is not None]
        if whole:
            losses += [_deleted(topic, *late) for late in _begun_late(offsets, snapshot, topic)]
    return sorted(losses, key=lambda loss: (loss.topic, loss.partition))


def _loss(
    topic: str, partition: int, offset: int, known_id: str | None, snapshot: KafkaSnapshot
) -> Loss | None:
    if topic not in snapshot.newest:
        return Loss(topic, partition, "the topic was deleted, and its unread records are lost")
    is_another = known_id is not None and known_id != snapshot.ids.get(topic, known_id)
    if is_another or partition not in snapshot.newest[topic]:  # a topic never shrinks
        why = (
            "the topic was deleted and created again, and the unread records of the old topic are "
            "lost"
        )
        return Loss(topic, partition, why)
    if offset == EARLIEST:
        return None
    # Not where the reader ends: one that has begun to read committed records only is beyond that
    # as long as a transaction is open.
    earliest, end = snapshot.earliest[topic][partition], snapshot.log_ends[topic][partition]
    if offset < earliest:
        return _deleted(topic, partition, earliest - offset)
    if offset <= end:
        return None
    if known_id is not None and topic in snapshot.ids:
        return _cut(topic, partition, offset, end)
    why = (
        f"it ends at offset {end}, before the stream's offset {offset}: the topic was deleted and "
        "created again, or brokers have lost the end of its log"
    )
    return Loss(topic, partition, why)


def _cut(topic: str, partition: int, offset: int, end: int) -> Loss:
    why = (
        f"brokers have lost the end of its log (an unclean leader election): it ends at offset "
        f"{end}, before the stream's offset {offset}, and it is the same topic"
    )
    return Loss(topic, partition, why, ends=end)


def _begun_late(
    offsets: Mapping[int, int], snapshot: KafkaSnapshot, topic: str
) -> Iterable[tuple[int, int]]:
    """The partitions without an offset whose first records were deleted, and their number."""
    earliest = snapshot.earliest.get(topic, {})
    return [(n, first) for n, first in earliest.items() if first > 0 and n not in offsets]


def is_new_and_begins_late(offsets: Offsets, snapshot: KafkaSnapshot) -> bool:
    """Whether there is a partition without an offset whose first records were deleted."""
    return any(_begun_late(offsets.get(topic, {}), snapshot, topic) for topic in snapshot.newest)


def of_all_partitions(offsets: Offsets, snapshot: KafkaSnapshot) -> Offsets:
    """The offsets of exactly the partitions there are: a new one begins with its earliest record.

    Spark would take other partitions in a checkpoint for lost records, and fail under
    failOnDataLoss: one that is not read any more (all engines, planInputPartitions), and a new one
    without its first records (the micro-batch engine,
    KafkaOffsetReaderBase.getOffsetRangesFromResolvedOffsets).
    """
    return {
        topic: {n: offsets.get(topic, {}).get(n, snapshot.earliest[topic][n]) for n in ends}
        for topic, ends in snapshot.newest.items()
    }


class RunningLosses:
    """Losses of a running query, each reported once.

    With failOnDataLoss, Spark fails the query and the next start counts. Without, Spark skips the
    records and only the executor that reads the partition logs it.
    """

    def __init__(self, earliest: Offsets | None = None) -> None:
        """`earliest`: the earliest offsets when the query was planned."""
        self._reported = {
            (topic, number): first
            for topic, offsets in (earliest or {}).items()
            for number, first in offsets.items()
        }
        self._reached: dict[tuple[str, int], int] = {}
        """The last committed offsets."""

    def find(
        self, committed: Offsets, earliest: Offsets, *, of_this_run: bool = True
    ) -> list[Loss]:
        """Records between the committed and the earliest offsets that were not reported yet.

        Counts also records that were read and are not committed yet: it does not know them. And a
        partition whose committed offset has gone back, as that of a log that brokers have cut.
        `of_this_run`: the query has committed since its start, which may have moved the offsets.
        """
        losses = []
        for topic, offsets in sorted(committed.items()):
            for number, offset in sorted(offsets.items()):
                if of_this_run:
                    reached = self._reached.get((topic, number), offset)
                    self._reached[topic, number] = offset
                    if offset < reached:
                        losses.append(_cut(topic, number, reached, offset))
                first = earliest.get(topic, {}).get(number, 0)
                lost = first - max(offset, self._reported.get((topic, number), 0))
                if lost > 0:
                    self._reported[topic, number] = first
                    losses.append(_deleted(topic, number, lost))
        return losses


def _deleted(topic: str, partition: int, records: int) -> Loss:
    why = f"{records} records were deleted before they were read"
    return Loss(topic, partition, why, records)


def offsets_after_loss(
    committed: Offsets, losses: Iterable[Loss], snapshot: KafkaSnapshot
) -> Offsets:
    """The offsets to continue from: the earliest of each lost partition, if it still exists.

    Of one whose log was cut its end: what is before it was read.
    """
    lost = {(loss.topic, loss.partition): loss for loss in losses}

    def corrected(topic: str, partition: int, offset: int) -> int | None:
        loss = lost.get((topic, partition))
        if loss is None:
            return offset
        return snapshot.earliest.get(topic, {}).get(partition) if loss.ends is None else loss.ends

    return {
        topic: {
            partition: right
            for partition, offset in offsets.items()
            if (right := corrected(topic, partition, offset)) is not None
        }
        for topic, offsets in committed.items()
    }


def error(losses: list[Loss]) -> DriverError:
    """The permanent failure under failOnDataLoss: the user has to accept the loss."""
    return DriverError(
        Failure(
            REASON,
            f"Unread records are gone from Kafka. {_list(losses)}. {_ADVICE}",
            permanent=True,
            recoverable=True,  # another cluster may have answered under the same name
            asked_for=True,
        )
    )


def warning(losses: list[Loss]) -> Failure:
    """The warning without failOnDataLoss."""
    known = [loss.records for loss in losses if loss.records is not None]
    count = f"{sum(known)} records" if len(known) == len(losses) else "An unknown number of records"
    return Failure(
        REASON,
        f"{count} were gone from Kafka before they were read. {_list(losses)}. Because "
        "failOnDataLoss is false, the stream continues with the records that are left.",
    )


def _list(losses: list[Loss]) -> str:
    shown = "; ".join(map(str, losses[:_MAX_SHOWN]))
    more = len(losses) - _MAX_SHOWN
    return f"{shown}; and {more} more partitions" if more > 0 else shown
