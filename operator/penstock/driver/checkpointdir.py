"""The checkpoint as a folder: the reading and deleting that checkpoint.py decides on."""

from __future__ import annotations

import json
import os
from pathlib import Path

from penstock.driver import checkpoint, checkpointmodes
from penstock.driver.checkpoint import Repair
from penstock.driver.kafka import Offsets
from penstock.stream.spec import StreamSpec

# Not Spark's: where the stream first began. Spark's continuous engine asks Kafka for "latest" anew
# at each start until there is a commit, and would skip what came in between.
_FIRST_OFFSETS = Path("penstock") / "first-offsets.json"


class CheckpointFolder:
    """One stream's checkpoint in a mounted folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def location(self) -> str:
        """What Spark calls checkpointLocation."""
        return self.path.absolute().as_uri()

    def repair(self, spec: StreamSpec) -> Repair:
        """Mends what a crash, or another of Spark's engines, left; only while no query runs."""
        repair = checkpointmodes.plan(self._read(), spec)
        for name in repair.delete:
            (self.path / name).unlink(missing_ok=True)
        for name, content in repair.write.items():
            _write(self.path / name, content)
        for log in checkpoint.LOGS:
            _sync(self.path / log)
        return repair

    def epoch(self) -> int | None:
        """The newest committed epoch."""
        return checkpoint.committed_epoch(_names(self.path / "commits"))

    def planned(self) -> int | None:
        """The newest epoch whose offsets were written, committed or not."""
        return checkpoint.committed_epoch(_names(self.path / "offsets"))

    def committed_offsets(self) -> Offsets | None:
        """Kafka's offsets at the newest commit; None before the first."""
        epoch = self.epoch()
        if epoch is None:
            return None
        try:
            return checkpoint.kafka_offsets((self.path / "offsets" / str(epoch)).read_bytes())
        # Purged while we looked, not mended yet, or of a source that is not Kafka.
        except (FileNotFoundError, ValueError, AttributeError):
            return None

    def first_offsets(self) -> Offsets | None:
        """Where the stream first began, if it has begun."""
        try:
            document = json.loads((self.path / _FIRST_OFFSETS).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return {
            topic: {int(p): offset for p, offset in of.items()} for topic, of in document.items()
        }

    def keep_first_offsets(self, offsets: Offsets) -> None:
        """Remembers where the stream begins, before it does."""
        target = self.path / _FIRST_OFFSETS
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(target, json.dumps(offsets).encode())
        _sync(target.parent)

    def _read(self) -> dict[str, bytes]:
        paths = [f"{log}/{name}" for log in checkpoint.LOGS for name in _names(self.path / log)]
        paths += [name for name in _names(self.path) if "metadata" in name]
        return {name: (self.path / name).read_bytes() for name in paths}


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_file()]
    except FileNotFoundError:
        return []


def _write(target: Path, content: bytes) -> None:
    """All of the file or nothing of it, also across a power cut once its folder is synced."""
    draft = target.with_name(f".{target.name}.tmp")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)


def _sync(folder: Path) -> None:
    """Makes the folder's entries survive a power cut."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
