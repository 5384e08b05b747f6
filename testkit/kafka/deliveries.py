"""Whether what is in a sink twice was uncommitted, as guarantee 2 says: judged by the checkpoint.

A query reads again only what no commit includes when it starts. So no copy of a record may be
written to the sink after the first commit that includes the record, whatever failed, how often, and
in which mode. This bounds the duplicates of a fault by what was in doubt: the records between two
commits.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.driver.background_threads import repeat_in_background
from penstock.driver.checkpoint.progress import Commit, ProgressReader
from penstock.driver.checkpoint.storage.volume import VolumeFiles

Place = tuple[int, int]
"""A record's partition and offset in the topic of the source."""

# A file's time may be a tick of the kernel's clock (4 ms) too early, a record's time is in whole
# milliseconds; a query that reads a record again needs longer than this to start.
_CLOCK_SECONDS = 0.25


@dataclass(frozen=True)
class Copy:
    number: int
    at: float
    """When the sink's producer was given it, in seconds since 1970."""


class CommitLog:
    """The commits of one checkpoint. Spark purges all but the last hundred: look often enough."""

    def __init__(self, checkpoint: Path) -> None:
        self._reader = ProgressReader(VolumeFiles(checkpoint))
        self.commits: list[Commit] = []

    def look(self) -> None:
        self.commits += [commit for commit, _ in self._reader.new_commits()]

    def replays_of_committed(
        self, topic: str, places: Mapping[int, Place], copies: Iterable[Copy]
    ) -> list[Copy]:
        """The copies that break guarantee 2, given where each number is in the source's topic."""
        committed = _Committed(self.commits, topic)
        return [
            copy
            for copy in copies
            if (at := committed.at(places[copy.number])) is not None
            and copy.at > at + _CLOCK_SECONDS
        ]

    def most_in_doubt(self, since: float, until: float) -> int:
        """The most records of one commit in this time: what a fault in it may bring twice."""
        pairs = zip(self.commits, self.commits[1:], strict=False)
        return max(
            (_between(before, after) for before, after in pairs if since <= after.at <= until),
            default=0,
        )


class _Committed:
    """When each record of a topic was first committed."""

    def __init__(self, commits: Iterable[Commit], topic: str) -> None:
        self._ends: dict[int, list[int]] = {}
        self._times: dict[int, list[float]] = {}
        for commit in sorted(commits, key=lambda each: each.at):
            for partition, end in (commit.offsets or {}).get(topic, {}).items():
                ends = self._ends.setdefault(partition, [0])
                if end > ends[-1]:
                    ends.append(end)
                    self._times.setdefault(partition, []).append(commit.at)

    def at(self, place: Place) -> float | None:
        partition, offset = place
        index = bisect_right(self._ends.get(partition, [0]), offset) - 1
        times = self._times.get(partition, [])
        return times[index] if index < len(times) else None


def _between(before: Commit, after: Commit) -> int:
    if before.offsets is None or after.offsets is None:
        return 0
    return sum(
        max(0, end - before.offsets.get(topic, {}).get(partition, 0))
        for topic, ends in after.offsets.items()
        for partition, end in ends.items()
    )


@contextlib.contextmanager
def commits_of(checkpoint: Path) -> Iterator[CommitLog]:
    """Collects the commits of a checkpoint on this machine during the block."""
    log = CommitLog(checkpoint)
    with repeat_in_background(log.look, 0.1):
        yield log
    log.look()
