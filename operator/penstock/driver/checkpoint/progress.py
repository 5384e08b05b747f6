"""What the checkpoint's logs tell of a query's progress: the truth in every mode.

Continuous mode fires no progress events at all (measured, Spark 4.2 and 4.3), so epochs, offsets
and how long commits take are read from the files that make them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.driver.checkpoint.files import kafka_offsets
from penstock.driver.kafka.offsets import Offsets

# Enough for any beat at which a loop looks; a long catch-up need not be told file by file.
_MOST = 50


@dataclass(frozen=True)
class Commit:
    """One committed epoch, or batch."""

    epoch: int
    at: float
    """When it was committed, in seconds since 1970."""
    took: float | None
    """Seconds from its offsets to its commit: in continuous mode for every writer to flush, in the
    batch modes for the batch itself."""
    offsets: Offsets | None
    """Where it ends, in Kafka's offsets; None for another source."""


@dataclass(frozen=True)
class OffsetRange:
    """The records of one commit: from an offset up to another, by partition."""

    before: Offsets
    after: Offsets
    committed_at: float

    def records(self) -> int:
        """How many there are."""
        return sum(end - start for _, _, start, end in self.parts())

    def parts(self) -> list[tuple[str, int, int, int]]:
        """Topic, partition, first offset and end, of the partitions that have any.

        One that was not there before is left out: where it began is not known.
        """
        return [
            (topic, partition, self.before[topic][partition], end)
            for topic, ends in self.after.items()
            for partition, end in ends.items()
            if self.before.get(topic, {}).get(partition, end) < end
        ]


class ProgressReader:
    """Reads what has been committed since it last looked. Not for use by two threads."""

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint
        self.newest: Commit | None = None
        """The newest commit that was seen."""
        self.offset_range: OffsetRange | None = None
        """Its records; None where they are not known."""

    def news(self) -> list[tuple[Commit, OffsetRange | None]]:
        """Commits since the last look, oldest first; the first look gives the newest one alone."""
        epochs = self._epochs()
        if self.newest is not None and epochs and epochs[-1] < self.newest.epoch:
            self.newest = self.offset_range = None  # the last one was taken back
        since = epochs[-1:] if self.newest is None else _after(epochs, self.newest.epoch)
        return [each for n in since if (each := self._take(n)) is not None]

    def _epochs(self) -> list[int]:
        try:
            return sorted(
                int(entry.name)
                for entry in os.scandir(self._path / "commits")
                if entry.name.isdigit()
            )
        except FileNotFoundError:
            return []

    def _take(self, epoch: int) -> tuple[Commit, OffsetRange | None] | None:
        before, commit = self.newest, self._read(epoch)
        if commit is None:
            return None
        self.newest, self.offset_range = commit, None
        if before is not None and before.offsets is not None and commit.offsets is not None:
            self.offset_range = OffsetRange(before.offsets, commit.offsets, commit.at)
        return commit, self.offset_range

    def _read(self, epoch: int) -> Commit | None:
        offsets = self._path / "offsets" / str(epoch)
        try:
            at = (self._path / "commits" / str(epoch)).stat().st_mtime
        except FileNotFoundError:  # purged while we looked
            return None
        try:
            planned, content = offsets.stat().st_mtime, offsets.read_bytes()
        except FileNotFoundError:
            return Commit(epoch, at, None, None)
        return Commit(epoch, at, max(0.0, at - planned), _offsets(content))


def _after(epochs: list[int], last: int) -> list[int]:
    return [epoch for epoch in epochs if epoch > last][-_MOST:]


def _offsets(content: bytes) -> Offsets | None:
    try:
        return kafka_offsets(content)
    except (ValueError, AttributeError, IndexError):  # of a source that is not Kafka
        return None
