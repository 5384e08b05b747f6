"""The records of the source that nobody reads yet, because a transaction before them is open. Pure.

A reader of committed records (`read_committed`) stops at the first record of a transaction that is
neither committed nor aborted, and with it everything that other producers have written after it. A
producer that has ended without a word is given up by the brokers within its transaction.timeout.ms.
A transaction that hangs (KIP-664) stays until somebody aborts it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets

REASON = "SourceHeldByTransaction"
# Of transactions that end by themselves, few are open for longer.
WARN_AFTER_SECONDS = 300.0


@dataclass(frozen=True)
class Hold:
    """What an open transaction holds back in one partition."""

    offset: int
    """Of its first record: the partition's last stable offset."""
    records: int
    """From there to the end of the log, with the transaction's own and its markers."""
    since: float
    """When the partition was first seen to end here for a reader, on the monotonic clock."""


Holds = Mapping[tuple[str, int], Hold]
"""By topic and partition."""


def held(before: Holds, newest: Offsets, log_ends: Offsets, now: float) -> Holds:
    """What is held back now; `before` is what was at the last look.

    >>> first = held({}, {"in": {0: 50, 1: 7}}, {"in": {0: 51, 1: 7}}, now=10.0)
    >>> first
    {('in', 0): Hold(offset=50, records=1, since=10.0)}
    >>> held(first, {"in": {0: 50}}, {"in": {0: 1051}}, now=20.0)
    {('in', 0): Hold(offset=50, records=1001, since=10.0)}
    >>> held(first, {"in": {0: 60}}, {"in": {0: 1051}}, now=20.0)
    {('in', 0): Hold(offset=60, records=991, since=20.0)}
    """
    holds = {}
    for topic, ends in log_ends.items():
        for number, end in ends.items():
            stable = newest[topic][number]
            if end > stable:
                earlier = before.get((topic, number))
                stands = earlier is not None and earlier.offset == stable
                since = earlier.since if earlier is not None and stands else now
                holds[topic, number] = Hold(stable, end - stable, since)
    return holds


def records(holds: Holds) -> int:
    """How many are held back."""
    return sum(hold.records for hold in holds.values())


def seconds(holds: Holds, now: float) -> float:
    """For how long the partition has stood still that has stood for longest; 0 if none does."""
    return max((now - hold.since for hold in holds.values()), default=0.0)


def warning(holds: Holds, now: float, servers: str) -> Failure | None:
    """What is said of partitions that have stood still for minutes; `servers`: the brokers."""
    long = {place: hold for place, hold in holds.items() if now - hold.since >= WARN_AFTER_SECONDS}
    if not long:
        return None
    (topic, number), hold = min(long.items(), key=lambda item: item[1].since)
    others = f", and of {len(long) - 1} more partitions" if len(long) > 1 else ""
    tool = ["kafka-transactions.sh", "--bootstrap-server", servers]
    place = ["--topic", topic, "--partition", str(number)]
    look = shlex.join([*tool, "describe-producers", *place])
    abort = shlex.join([*tool, "abort", *place, "--start-offset", str(hold.offset)])
    return Failure(
        REASON,
        f"The source of the stream has a transaction that has been open for at least "
        f"{WARN_AFTER_SECONDS / 60:.0f} minutes, so with read_committed nothing is read of "
        f"partition {number} of {topic} from offset {hold.offset} on{others}, also not what other "
        f"producers have written since; status.lag does not count it. See whose it is: {look}. If "
        f"that producer is gone for good, abort it: {abort}",
    )
