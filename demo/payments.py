"""The payments of the demo: which of them the example flags, and what became of them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testkit.paths import CHECKOUT

EXAMPLE: Path = CHECKOUT / "examples" / "fraud-flags.yaml"
SOURCE, SINK = "payments", "flags"
PARTITIONS = 4
PER_SECOND = 100
AT_MOST = PER_SECOND * 600


def is_flagged(payment: int) -> bool:
    """The condition of `isPaymentFlagged` in the example, for the count at the end."""
    return payment % 10 == 3


def payment(number: int) -> str:
    """One payment, with the time it is sent (ms since 1970)."""
    return json.dumps(
        {"paymentId": number, "amount": 9.5 + number % 90, "n": number, "ms": time.time() * 1000}
    )


@dataclass(frozen=True)
class Count:
    sent: int
    to_flag: int
    arrived: int
    arrived_before_kill: int
    lost: int
    wrong: int
    duplicates: int

    @property
    def is_right(self) -> bool:
        """Whether every flag arrived, and no other. Duplicates are within the guarantee."""
        return self.lost == 0 and self.wrong == 0

    def __str__(self) -> str:
        return (
            f"{self.sent} payments sent, {self.to_flag} of them to flag: {self.arrived} flags "
            f"arrived ({self.arrived_before_kill} before the kill), {self.lost} lost, "
            f"{self.wrong} wrong, {self.duplicates} duplicates (at-least-once: a restart replays "
            "at most one epoch)"
        )


def to_flag(sent: int) -> list[int]:
    """The payments to flag, of those with the numbers below `sent`."""
    return [number for number in range(sent) if is_flagged(number)]


def count(sent: int, arrivals: Mapping[int, int], arrived_before_kill: int) -> Count:
    """`arrivals`: how often each number has arrived."""
    expected, arrived = set(to_flag(sent)), set(arrivals)
    return Count(
        sent=sent,
        to_flag=len(expected),
        arrived=len(arrived),
        arrived_before_kill=arrived_before_kill,
        lost=len(expected - arrived),
        wrong=len(arrived - expected),
        duplicates=sum(arrivals.values()) - len(arrived),
    )


def describe_latency(milliseconds: Sequence[float]) -> str:
    """Median and 99th percentile of the latencies since the last line."""
    if not milliseconds:
        return "no flags in these two seconds"
    ordered = sorted(milliseconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"latency median {statistics.median(ordered):7.1f} ms, 99th percentile {p99:7.1f} ms"
