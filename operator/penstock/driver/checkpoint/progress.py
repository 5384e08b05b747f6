"""Reads a query's progress from the logs in its checkpoint, in every mode.

Continuous mode fires no progress events at all (measured, Spark 4.2 and 4.3), so epochs, offsets
and commit durations are read from the files of the checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.driver.checkpoint.file_formats import Entry
from penstock.driver.failures import CHECKPOINT_NOT_ACCESSIBLE, DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

# More than a loop finds at once. A long catch-up does not need a measurement for each commit.
_MAX_COMMITS = 50
# Longer than a tick of the clock that stamps files, which is 10 ms at most; and than one of a file
# system that keeps whole seconds, such as ext3 behind NFS, or every other one, such as FAT.
_TICK_SECONDS = 0.05
_COARSE_TICK_SECONDS = 2.05
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Commit:
    """One committed epoch, or batch."""

    epoch: int
    at: float
    """When it was committed, in seconds since 1970."""
    took: float | None
    """Seconds from its offsets to its commit. In continuous mode this is the time for every writer
    to flush, in the batch modes the time of the batch itself."""
    offsets: Offsets | None
    """The Kafka offsets at its end; None for another source."""


@dataclass(frozen=True)
class OffsetRange:
    """The records of one commit: by partition, from an offset up to another."""

    before: Offsets
    after: Offsets
    committed_at: float

    def records(self) -> int:
        return sum(end - start for _, _, start, end in self.parts())

    def parts(self) -> list[tuple[str, int, int, int]]:
        """Topic, partition, first offset and end offset of each partition with records.

        A new partition is left out, because its first offset is unknown.
        """
        return [
            (topic, partition, self.before[topic][partition], end)
            for topic, ends in self.after.items()
            for partition, end in ends.items()
            if self.before.get(topic, {}).get(partition, end) < end
        ]


@dataclass(frozen=True)
class _Listing:
    """What a log held when its folder had this time."""

    changed: int
    numbers: list[int]
    first_seen: float
    """When the folder was first seen with this time, on the monotonic clock."""
    is_final: bool
    """Every later change gives the folder another time."""


class ProgressReader:
    """Reads the commits and offsets of one checkpoint. Not for use by two threads."""

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint
        self.newest: Commit | None = None
        """The newest commit that `new_commits` has returned."""
        self.offset_range: OffsetRange | None = None
        """The records of that commit; None where they are unknown."""
        self._listed: dict[str, _Listing] = {}
        self._offsets: tuple[int, Offsets] | None = None

    def committed_epoch(self) -> int | None:
        """The newest committed epoch, or batch."""
        return max(self._numbers("commits"), default=None)

    def planned_epoch(self) -> int | None:
        """The newest epoch, or batch, whose offsets are written, committed or not."""
        return max(self._numbers("offsets"), default=None)

    def committed_offsets(self) -> Offsets | None:
        """Kafka's offsets at the newest commit; None before the first, and for other sources."""
        epoch = self.committed_epoch()
        if epoch is None:
            return None
        if self._offsets is None or self._offsets[0] != epoch:
            file = self._path / "offsets" / str(epoch)
            try:
                with _volume_answers(file):
                    content = file.read_bytes()
            except FileNotFoundError:  # purged in the meantime, or not repaired yet
                return None
            found = _offsets(content)
            if found is None:
                return None
            self._offsets = epoch, found
        return self._offsets[1]

    def forget_offsets(self) -> None:
        """A repair may have given the newest commit other offsets."""
        self._offsets = None

    def new_commits(self) -> list[tuple[Commit, OffsetRange | None]]:
        """Commits since the last call, oldest first. The first call returns only the newest."""
        epochs = sorted(self._numbers("commits"))
        if self.newest is not None and epochs and epochs[-1] < self.newest.epoch:
            self.newest = self.offset_range = None  # a repair has removed the last commit
        new = epochs[-1:] if self.newest is None else _after(epochs, self.newest.epoch)
        return [advanced for n in new if (advanced := self._advance(n)) is not None]

    def _numbers(self, log: str) -> list[int]:
        """The numbers in a log. The folder is listed only if its time has changed.

        Two changes within one tick have the same time, so a listing counts from a tick later on. A
        file server and a clock that jumps have other times than this process: only the monotonic
        clock can tell.
        """
        folder = self._path / log
        try:
            with _volume_answers(folder):
                changed, now = folder.stat().st_mtime_ns, time.monotonic()
                known = self._listed.get(log)
                if known is not None and known.changed == changed and known.is_final:
                    return known.numbers
                with os.scandir(folder) as entries:
                    found = [int(entry.name) for entry in entries if entry.name.isdecimal()]
        except FileNotFoundError:
            return []
        first_seen = known.first_seen if known is not None and known.changed == changed else now
        tick = _TICK_SECONDS if changed % _NANOSECONDS else _COARSE_TICK_SECONDS
        self._listed[log] = _Listing(changed, found, first_seen, now - first_seen > tick)
        return found

    def _advance(self, epoch: int) -> tuple[Commit, OffsetRange | None] | None:
        before, commit = self.newest, self._read(epoch)
        if commit is None:
            return None
        self.newest, self.offset_range = commit, None
        if before is not None and before.offsets is not None and commit.offsets is not None:
            self.offset_range = OffsetRange(before.offsets, commit.offsets, commit.at)
        return commit, self.offset_range

    def _read(self, epoch: int) -> Commit | None:
        offsets, commit = (self._path / log / str(epoch) for log in ("offsets", "commits"))
        try:
            with _volume_answers(commit):
                at = commit.stat().st_mtime
        except FileNotFoundError:  # purged in the meantime
            return None
        try:
            with _volume_answers(offsets):
                planned, content = offsets.stat().st_mtime, offsets.read_bytes()
        except FileNotFoundError:
            return Commit(epoch, at, None, None)
        return Commit(epoch, at, max(0.0, at - planned), _offsets(content))


@contextmanager
def _volume_answers(path: Path) -> Iterator[None]:
    """Turns an OSError into a failure; passes on that a file is not there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        why = error.strerror or type(error).__name__
        message = f"The checkpoint's volume does not answer ({path}: {why})."
        raise DriverError(Failure(CHECKPOINT_NOT_ACCESSIBLE, message)) from error


def _after(epochs: list[int], last: int) -> list[int]:
    return [epoch for epoch in epochs if epoch > last][-_MAX_COMMITS:]


def _offsets(content: bytes) -> Offsets | None:
    entry = Entry.parse(content)
    return None if entry is None else entry.offsets
