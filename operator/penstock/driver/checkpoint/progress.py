"""Reads a query's progress from the logs in its checkpoint, in every mode.

Continuous mode fires no progress events at all (measured, Spark 4.2 and 4.3), so epochs, offsets
and commit durations are those of the files of the checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.driver.checkpoint.file_formats import Entry
from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.kafka.offsets import Offsets

# More than a loop finds at once. A long catch-up does not need a measurement for each commit.
_MAX_COMMITS = 50


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


class ProgressReader:
    """Reads the commits and offsets of one checkpoint. Not for use by two threads."""

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self.newest: Commit | None = None
        """The newest commit that `new_commits` has returned."""
        self.offset_range: OffsetRange | None = None
        """The records of that commit; None where they are unknown."""
        self._offsets: tuple[int, Offsets] | None = None

    def committed_epoch(self) -> int | None:
        """The newest committed epoch, or batch."""
        return max(self._files.entries("commits"), default=None)

    def planned_epoch(self) -> int | None:
        """The newest epoch, or batch, whose offsets are written, committed or not."""
        return max(self._files.entries("offsets"), default=None)

    def committed_offsets(self) -> Offsets | None:
        """Kafka's offsets at the newest commit; None before the first, and for other sources."""
        epoch = self.committed_epoch()
        if epoch is None:
            return None
        if self._offsets is None or self._offsets[0] != epoch:
            content = self._files.content("offsets", epoch)
            # None: purged in the meantime, or not repaired yet.
            offsets = None if content is None else _offsets(content)
            if offsets is None:
                return None
            self._offsets = epoch, offsets
        return self._offsets[1]

    def forget_offsets(self) -> None:
        """A repair may have given the newest commit other offsets."""
        self._offsets = None

    def new_commits(self) -> list[tuple[Commit, OffsetRange | None]]:
        """Commits since the last call, oldest first. The first call returns only the newest."""
        epochs = sorted(self._files.entries("commits"))
        if self.newest is not None and epochs and epochs[-1] < self.newest.epoch:
            self.newest = self.offset_range = None  # a repair has removed the last commit
        new = epochs[-1:] if self.newest is None else _after(epochs, self.newest.epoch)
        return [advanced for n in new if (advanced := self._advance(n)) is not None]

    def _advance(self, epoch: int) -> tuple[Commit, OffsetRange | None] | None:
        before, commit = self.newest, self._read(epoch)
        if commit is None:
            return None
        self.newest, self.offset_range = commit, None
        if before is not None and before.offsets is not None and commit.offsets is not None:
            self.offset_range = OffsetRange(before.offsets, commit.offsets, commit.at)
        return commit, self.offset_range

    def _read(self, epoch: int) -> Commit | None:
        at = self._files.written_at("commits", epoch)
        if at is None:  # purged in the meantime
            return None
        planned = self._files.written_at("offsets", epoch)
        content = self._files.content("offsets", epoch)
        if planned is None or content is None:
            return Commit(epoch, at, None, None)
        return Commit(epoch, at, max(0.0, at - planned), _offsets(content))


def _after(epochs: list[int], last: int) -> list[int]:
    return [epoch for epoch in epochs if epoch > last][-_MAX_COMMITS:]


def _offsets(content: bytes) -> Offsets | None:
    entry = Entry.parse(content)
    return None if entry is None else entry.offsets
