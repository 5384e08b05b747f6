"""Measures the lag in seconds: how old the oldest record is that is not committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.driver.kafka.offsets import Offsets, lags
from penstock.driver.kafka.records import StampedRecord
from penstock.driver.record_position import Position

# Records to read in one measurement: its cost does not grow with the number of partitions.
MAX_READS = 32

# Topic, partition and offset to the first record from there.
Read = Callable[[str, int, int], StampedRecord | None]


@dataclass(frozen=True)
class _LastRead:
    """What was read of a partition."""

    committed: int
    newest: int
    timestamp: float | None
    """None if there was no record: a transaction's marker, a gap, or a consumer that connects."""
    reads: int = 1

    def holds(self, committed: int, newest: int) -> bool:
        """Whether reading again would find the same."""
        if self.committed != committed:
            return False
        return self.timestamp is not None or (self.newest == newest and self.reads > 1)


class RecordAges:
    """Remembers what it read: a partition that does not move, the one to find, is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _LastRead] = {}
        self._committed: Offsets = {}
        """At the last measurement."""

    @property
    def positions_behind(self) -> frozenset[Position]:
        """The committed offsets at or after which the last measurement knew of a record."""
        return frozenset(
            Position(topic, number, known.committed)
            for (topic, number), known in self._known.items()
            if known.timestamp is not None
        )

    def measure(self, committed: Offsets, newest: Offsets, read: Read, now: float) -> float:
        """Seconds; 0 if every record is committed.

        Up to MAX_READS partitions are read: first those without a commit since the last
        measurement, since a stuck one may have a small lag; then those with the largest lag.
        """
        behind = {place: lag for place, lag in lags(committed, newest).items() if lag > 0}
        before, self._known = (
            self._known,
            {
                (topic, number): known
                for (topic, number), known in self._known.items()
                if (topic, number) in behind
                and known.holds(committed.get(topic, {}).get(number, 0), newest[topic][number])
            },
        )
        earlier, self._committed = self._committed, committed
        unknown = [place for place in behind if place not in self._known]

        def order(place: tuple[str, int]) -> tuple[bool, int]:
            topic, number = place
            offset = committed.get(topic, {}).get(number)
            has_moved = topic not in earlier or earlier[topic].get(number) != offset
            return has_moved, -behind[place]

        for topic, number in sorted(unknown, key=order)[:MAX_READS]:
            first, end = committed.get(topic, {}).get(number, 0), newest[topic][number]
            record = read(topic, number, first)
            timestamp = record.timestamp if record is not None else None
            again = before.get((topic, number))
            reads = again.reads + 1 if again is not None and again.newest == end else 1
            self._known[topic, number] = _LastRead(first, end, timestamp, reads)
        oldest = min(
            (known.timestamp for known in self._known.values() if known.timestamp), default=now
        )
        return max(0.0, now - oldest)
