"""Joins the records that were sent with those that arrived, and takes percentiles. Pure."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

PERCENTILES = {"p50": 500, "p90": 900, "p99": 990, "p99.9": 999, "max": 1000}
"""How many of a thousand values do not exceed each."""


@dataclass(frozen=True)
class Sent:
    number: int
    phase: int
    flagged: bool
    sent_ns: int
    """By the clock of the load generator, right before its producer got the record."""
    appended_ms: int
    """When the broker appended it to the log."""


@dataclass(frozen=True)
class Received:
    number: int
    as_sent: bool
    """Whether key and value are those that were sent."""
    received_ns: int
    """By the clock of the load generator, right after its consumer's poll returned the record."""
    appended_ms: int
    """When the broker appended it to the log."""


@dataclass(frozen=True)
class Latencies:
    """Of the records of one or more phases, in milliseconds."""

    end_to_end: tuple[float, ...]
    """From the producer's clock to the consumer's."""
    append_to_append: tuple[float, ...]
    """From the log of the source topic to the log of the sink topic. Whole milliseconds."""

    def __add__(self, other: Latencies) -> Latencies:
        return Latencies(
            self.end_to_end + other.end_to_end, self.append_to_append + other.append_to_append
        )


@dataclass(frozen=True)
class Deliveries:
    """Everything that one run sent and received."""

    sent: Sequence[Sent]
    received: Sequence[Received]

    @classmethod
    def read(cls, folder: Path) -> Deliveries:
        """What load/Load.java wrote to a folder."""
        return cls(
            [
                Sent(number, phase, bool(flagged), sent_ns, appended_ms)
                for number, phase, flagged, sent_ns, appended_ms in _rows(folder / "sent.csv")
            ],
            [
                Received(number, bool(as_sent), received_ns, appended_ms)
                for number, as_sent, received_ns, appended_ms in _rows(folder / "received.csv")
            ],
        )

    @property
    def lost(self) -> int:
        """Flagged payments that did not arrive."""
        arrived = {record.number for record in self.received}
        return sum(payment.flagged and payment.number not in arrived for payment in self.sent)

    @property
    def twice(self) -> int:
        """Copies after the first."""
        copies = Counter(record.number for record in self.received)
        return sum(copies.values()) - len(copies)

    @property
    def wrong(self) -> int:
        """Records that the filter should have dropped, or that arrived changed."""
        flagged = {record.number for record in self.sent if record.flagged}
        return sum(not record.as_sent or record.number not in flagged for record in self.received)

    def latencies(self, phase: int) -> Latencies:
        """Of the flagged payments of a phase that arrived; of their first copies."""
        first: dict[int, Received] = {}
        for record in self.received:
            first.setdefault(record.number, record)
        pairs = [
            (sent, first[sent.number])
            for sent in self.sent
            if sent.phase == phase and sent.number in first
        ]
        return Latencies(
            tuple((received.received_ns - sent.sent_ns) / 1e6 for sent, received in pairs),
            tuple(float(received.appended_ms - sent.appended_ms) for sent, received in pairs),
        )


def _rows(file: Path) -> Iterator[tuple[int, ...]]:
    with file.open(newline="") as lines:
        rows = csv.reader(lines)
        next(rows)
        yield from (tuple(map(int, row)) for row in rows)


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """The nearest-rank percentiles: each is one of the values. Raises ValueError without any."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no record to take percentiles of")
    return {
        name: round(ordered[math.ceil(Fraction(share, 1000) * len(ordered)) - 1], 3)
        for name, share in PERCENTILES.items()
    }
