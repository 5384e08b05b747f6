"""Kafka's partitions and offsets as values, and where a stream begins in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.driver.failures import DriverError, Failure

# topic -> partition -> offset of the next record
Offsets = Mapping[str, Mapping[int, int]]

# Spark's own word for "from the earliest" (Structured Streaming + Kafka Integration Guide).
EARLIEST = -2
LATEST = -1


@dataclass(frozen=True)
class Partitions:
    """The partitions a query will read, by topic."""

    numbers: Mapping[str, Sequence[int]]
    ids: Mapping[str, str] = field(default_factory=dict)
    """What tells a topic from an earlier one of the same name, by topic (KIP-516)."""

    @property
    def total(self) -> int:
        """Tasks that the query runs."""
        return sum(len(of_topic) for of_topic in self.numbers.values())


def starting_offsets(first: Offsets, newest: Offsets) -> str:
    """Spark's startingOffsets: where the stream first began, and new partitions from the earliest.

    So also a partition that ends before it began: its topic was made anew. Spark wants every
    partition named, and only those that exist.
    """

    def start(topic: str, partition: int, end: int) -> int:
        offset = first.get(topic, {}).get(partition, EARLIEST)
        return offset if offset <= end else EARLIEST

    return json.dumps(
        {
            topic: {str(partition): start(topic, partition, end) for partition, end in ends.items()}
            for topic, ends in newest.items()
        },
        sort_keys=True,
    )


def first_offsets(asked: Mapping[str, Mapping[str, int]], newest: Offsets) -> Offsets:
    """Where a stream begins that begins now: as asked by partition, else at the newest.

    Spark wants every partition named and no other, and dies of an assertion otherwise.
    """
    if not asked:
        return newest
    given = {(topic, int(number)) for topic, numbers in asked.items() for number in numbers}
    there = {(topic, number) for topic, ends in newest.items() for number in ends}
    wrong = [
        f"{words} {', '.join(f'{topic} {number}' for topic, number in sorted(partitions))}"
        for words, partitions in (("does not name", there - given), ("names", given - there))
        if partitions
    ]
    if wrong:
        raise DriverError(
            Failure(
                "StartingOffsetsIncomplete",
                f"startingOffsetsByPartition {' and '.join(wrong)}: it must name every partition "
                "that is read, and only those",
                permanent=True,
                recoverable=True,
            )
        )

    def begin(topic: str, number: int, end: int) -> int:
        offset = asked[topic][str(number)]
        return end if offset == LATEST else offset

    return {
        topic: {number: begin(topic, number, end) for number, end in ends.items()}
        for topic, ends in newest.items()
    }


def lags(committed: Offsets, newest: Offsets) -> Mapping[tuple[str, int], int]:
    """Records between the two, by topic and partition.

    A partition without a committed offset has not been begun.
    """
    return {
        (topic, partition): max(0, end - committed.get(topic, {}).get(partition, 0))
        for topic, ends in newest.items()
        for partition, end in ends.items()
    }


def lag(committed: Offsets, newest: Offsets) -> int:
    """Records between the two in all."""
    return sum(lags(committed, newest).values())


def chosen(
    counts: Mapping[str, int], assign: Mapping[str, Sequence[int]] | None
) -> dict[str, list[int]]:
    """The partitions to read of those there are: all, or the assigned ones."""
    if assign is None:
        return {topic: list(range(count)) for topic, count in counts.items()}
    for topic, numbers in assign.items():
        missing = [number for number in numbers if number >= counts[topic]]
        if missing:
            raise DriverError(
                Failure(
                    "PartitionMissing",
                    f"assign names partition {missing[0]} of {topic}, which has {counts[topic]}",
                    permanent=True,
                    recoverable=True,
                )
            )
    return {topic: sorted(set(numbers)) for topic, numbers in assign.items()}
