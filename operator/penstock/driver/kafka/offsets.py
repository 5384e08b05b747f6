"""Kafka's partitions and offsets as values, and the start position of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.driver.failures import DriverError, Failure
from penstock.driver.record_position import Position

# topic -> partition -> offset of the next record
Offsets = Mapping[str, Mapping[int, int]]

# Spark's numbers for "earliest" and "latest" (Structured Streaming + Kafka Integration Guide).
EARLIEST = -2
LATEST = -1


def is_before(record: Position, offsets: Offsets | None) -> bool:
    """Whether a query that goes on from these offsets has passed the record.

    >>> is_before(Position("in", 0, 7), {"in": {0: 8}}), is_before(Position("in", 0, 7), None)
    (True, False)
    """
    return record.offset < (offsets or {}).get(record.topic, {}).get(record.partition, 0)


@dataclass(frozen=True)
class Partitions:
    """The partitions a query will read, by topic."""

    numbers: Mapping[str, Sequence[int]]
    ids: Mapping[str, str] = field(default_factory=dict)
    """The id of each topic, which differs from that of an earlier topic of the same name (KIP-516).
    """

    @property
    def total(self) -> int:
        """Also the number of tasks."""
        return sum(len(of_topic) for of_topic in self.numbers.values())


@dataclass(frozen=True)
class FirstLook:
    """What the source had when the driver first looked, of a stream that could not start then.

    `latest` is where the topics ended at that moment: what came later is read.
    """

    named: Sequence[str]
    """The topics that the spec named, or its pattern."""
    offsets: Offsets
    """Where those ended that existed."""
    ids: Mapping[str, str]

    def joined(self, later: FirstLook) -> FirstLook:
        """With what a later look says of topics that the spec did not name before.

        >>> before, later = FirstLook(["a"], {}, {}), FirstLook(["a", "b"], {"a": {0: 7}}, {})
        >>> before.joined(later)
        FirstLook(named=['a', 'b'], offsets={}, ids={})
        """
        new = [name for name in later.named if name not in self.named]
        newer = {topic: of for topic, of in later.offsets.items() if topic not in self.named}
        return FirstLook([*self.named, *new], {**newer, **self.offsets}, {**later.ids, **self.ids})

    def beginning(
        self, pattern: str | None, ids: Mapping[str, str], earliest: Offsets, newest: Offsets
    ) -> Offsets:
        """Where a stream with this pattern, if any, begins that begins at the latest records.

        A topic or a partition that was created since then is read from its first record. One that
        the spec did not name then begins at its end.

        >>> look = FirstLook(["a", "b"], {"a": {0: 7}}, {"a": "id"})
        >>> earliest = {"a": {0: 0, 1: 0}, "b": {0: 0}, "c": {0: 0}}
        >>> newest = {"a": {0: 9, 1: 9}, "b": {0: 9}, "c": {0: 9}}
        >>> look.beginning(None, {"a": "id"}, earliest, newest)
        {'a': {0: 7, 1: 0}, 'b': {0: 0}, 'c': {0: 9}}
        """

        def begin(topic: str) -> Mapping[int, int]:
            if topic not in self.named and pattern not in self.named:
                return newest[topic]
            is_another = ids.get(topic) != self.ids.get(topic)
            then = {} if is_another else self.offsets.get(topic, {})
            return {n: then.get(n, earliest[topic][n]) for n in newest[topic]}

        return {topic: begin(topic) for topic in newest}


def latest(offsets: Offsets, others: Offsets) -> Offsets:
    """For each partition of `offsets` the later of both."""
    return {
        topic: {n: max(at, others.get(topic, {}).get(n, at)) for n, at in of.items()}
        for topic, of in offsets.items()
    }


def later_of_both(offsets: Offsets, others: Offsets) -> Offsets:
    """For each partition of either the later of both.

    >>> later_of_both({"in": {0: 7, 1: 4}}, {"in": {1: 9}, "other": {0: 1}})
    {'in': {1: 9, 0: 7}, 'other': {0: 1}}
    """
    both = {
        topic: {**others.get(topic, {}), **offsets.get(topic, {})}
        for topic in {**offsets, **others}
    }
    return latest(both, others)


def starting_offsets(first: Offsets, log_ends: Offsets) -> str:
    """Spark's startingOffsets: the first offsets, and the earliest for new partitions.

    A partition whose log ends before its first offset also starts at the earliest: its topic was
    created again. Spark requires every existing partition, and no others.
    """

    def start(topic: str, partition: int, end: int) -> int:
        offset = first.get(topic, {}).get(partition, EARLIEST)
        return offset if offset <= end else EARLIEST

    return json.dumps(
        {
            topic: {str(partition): start(topic, partition, end) for partition, end in ends.items()}
            for topic, ends in log_ends.items()
        },
        sort_keys=True,
    )


def first_offsets(
    by_partition: Mapping[str, Mapping[str, int]],
    newest: Offsets,
    field: str = "startingOffsetsByPartition",
) -> Offsets:
    """The offsets of a first start now: those `by_partition`, or else the newest.

    Raises StartingOffsetsIncomplete unless `by_partition` names exactly the existing partitions:
    Spark fails with an assertion error otherwise.
    """
    if not by_partition:
        return newest
    specified = {
        (topic, int(number)) for topic, numbers in by_partition.items() for number in numbers
    }
    existing = {(topic, number) for topic, ends in newest.items() for number in ends}
    wrong = [
        f"{words} {', '.join(f'{topic} {number}' for topic, number in sorted(partitions))}"
        for words, partitions in (
            ("does not name", existing - specified),
            ("names", specified - existing),
        )
        if partitions
    ]
    if wrong:
        raise DriverError(
            Failure(
                "StartingOffsetsIncomplete",
                f"{field} {' and '.join(wrong)}. It must name every partition "
                "that the stream reads, and no others.",
                permanent=True,
                recoverable=True,
            )
        )

    def first(topic: str, number: int, end: int) -> int:
        offset = by_partition[topic][str(number)]
        return end if offset == LATEST else offset

    return {
        topic: {number: first(topic, number, end) for number, end in ends.items()}
        for topic, ends in newest.items()
    }


def lags(committed: Offsets, newest: Offsets) -> Mapping[tuple[str, int], int]:
    """The lag in records, by topic and partition.

    A partition without a committed offset counts from offset 0.
    """
    return {
        (topic, partition): max(0, end - committed.get(topic, {}).get(partition, 0))
        for topic, ends in newest.items()
        for partition, end in ends.items()
    }


def lag(committed: Offsets, newest: Offsets) -> int:
    """The total lag in records."""
    return sum(lags(committed, newest).values())


def selected_partitions(
    counts: Mapping[str, int], assign: Mapping[str, Sequence[int]] | None
) -> dict[str, list[int]]:
    """The partitions to read: all of them, or the assigned ones."""
    if assign is None:
        return {topic: list(range(count)) for topic, count in counts.items()}
    for topic, numbers in assign.items():
        missing = [number for number in numbers if number >= counts[topic]]
        if missing:
            raise DriverError(
                Failure(
                    "PartitionMissing",
                    f"assign names partition {missing[0]} of {topic}, which has {counts[topic]} "
                    "partitions. Correct assign, or add partitions to the topic.",
                    permanent=True,
                    recoverable=True,
                )
            )
    return {topic: sorted(set(numbers)) for topic, numbers in assign.items()}
