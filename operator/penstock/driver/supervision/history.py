"""What the supervisor knows of earlier runs of the query, a part of which is noted.

A process that exits would otherwise forget that the spec has proved itself, how many failures came
in a row, and how much patience a slow query needs.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

from penstock.driver.checkpoint.notes import NotesFile
from penstock.driver.failures import DriverError
from penstock.driver.kafka.offsets import Offsets, is_before
from penstock.driver.logs import log_event
from penstock.driver.record_position import Position
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.unread_partitions import UnreadPartitions

_STORED = (
    "proved", "attempts", "poison_failures", "stalls", "slowest_progress", "uncommitted_seconds",
    "divisions",
)  # fmt: skip


@dataclass(frozen=True)
class History:
    """What outlives a run of the query. The notes keep what the next process must know."""

    proved: bool = False
    """The spec has committed records, or epochs for `stable_after`: it can run."""
    attempts: int = 0
    """Failures in a row: since the query was last healthy for `stable_after`."""
    poison_failures: int = 0
    """Failures that one record may have caused, since records were last committed."""
    suspects: frozenset[Position] = frozenset()
    """Records over which runs have failed and that are not committed, at most one of each
    partition."""
    dead_letters_stopped: bool = False
    """`maxPerMinute` was exceeded: no dead letters until all suspects are committed."""
    stalls: int = 0
    """Stalls in a row: since records were last committed, or a query was last healthy for
    `stable_after`."""
    slowest_progress: float = 0.0
    """The longest time between two signs of progress, in seconds, beyond the policy's
    `progress_interval`. Commits make it fade."""
    uncommitted_seconds: float = 0.0
    """For how long attempts have written what none of them has committed, up to the next attempt:
    their time, and that of the pauses after them."""
    query_failures: int = 0
    """Failures in a row of a running query."""
    rechecks: int = 0
    """Attempts with executors since records were last committed that ended in a permanent
    failure."""
    restarts: int = 0
    """Starts of the query after a failure."""
    divisions: int = 0
    """Divisions of the state that were begun since a query was last started."""
    unread_partitions: UnreadPartitions = UnreadPartitions()  # noqa: RUF009

    @property
    def failures_in_a_row(self) -> int:
        """Those over a record do not count for the back-off: ten of them are soon over."""
        return self.attempts + self.poison_failures

    def with_suspect(self, record: Position | None) -> History:
        """With one more record, which replaces that of its partition."""
        if record is None:
            return self
        others = {suspect for suspect in self.suspects if suspect[:2] != record[:2]}
        return replace(self, suspects=frozenset({*others, record}))

    def without_committed(self, offsets: Offsets | None) -> History:
        """Without the records that these offsets are behind."""
        suspects = frozenset(
            suspect for suspect in self.suspects if not is_before(suspect, offsets)
        )
        stopped = self.dead_letters_stopped and bool(suspects)
        return replace(self, suspects=suspects, dead_letters_stopped=stopped)

    def for_next_process(self, policy: RestartPolicy, *, counted: bool = False) -> History:
        """What the next process must know, as if this one crashed now: that is one more attempt.

        `counted`: the process exits for a failure that is one of the attempts already. The slowest
        progress is rounded up to a power of two, so that it is rarely written.

        >>> history = History(attempts=2, slowest_progress=100.0, restarts=7)
        >>> known = history.for_next_process(RestartPolicy(interval=1.0))
        >>> known.attempts, known.slowest_progress, known.restarts
        (3, 128.0, 0)
        """
        slow = policy.stall_after_slowest(self.slowest_progress) > policy.stall_after
        return History(
            proved=self.proved,
            attempts=self.attempts + int(not counted),
            poison_failures=self.poison_failures,
            stalls=self.stalls,
            uncommitted_seconds=self.uncommitted_seconds,
            slowest_progress=2.0 ** math.ceil(math.log2(self.slowest_progress)) if slow else 0.0,
            divisions=self.divisions,
        )

    def after_clean_stop(self, policy: RestartPolicy) -> History:
        """What the next process must know after a stop that somebody has asked for.

        Who stops the stream has looked at it, so what has failed counts anew.
        """
        return replace(
            self.for_next_process(policy),
            attempts=0,
            poison_failures=0,
            uncommitted_seconds=0.0,
            divisions=0,
        )


class NotedHistory:
    """The history of one spec, noted beside the checkpoint. A new spec starts without one."""

    def __init__(self, notes: NotesFile, spec_hash: str) -> None:
        self._notes = notes
        self._spec_hash = spec_hash

    def read(self) -> History:
        """The noted history; an empty one if there is none, or if it cannot be read."""
        try:
            noted = self._notes.read().history
            if noted is not None and noted["spec"] == self._spec_hash:
                return History(**{name: _number(noted[name]) for name in _STORED})
        except (DriverError, KeyError, TypeError) as error:
            log_event(
                "what earlier processes knew cannot be read", logging.WARNING, error=repr(error)
            )
        return History()

    def write(self, history: History) -> None:
        """Replaces the noted history; it survives a power cut. Raises DriverError."""
        known = {name: getattr(history, name) for name in _STORED}
        noted = {"spec": self._spec_hash, **known}
        self._notes.update(lambda notes: replace(notes, history=noted))


def _number(value: Any) -> Any:
    """A count, or seconds, or whether something is so."""
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise TypeError(value)
    return value
