"""The checkpoint as a folder: the reading, deleting and writing that repair.py decides on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.checkpoint import engine_switch, repair
from penstock.driver.checkpoint.files import kafka_offsets
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

# Not Spark's: where the stream first began. Spark's continuous engine asks Kafka for "latest" anew
# at each start until there is a commit, and would skip what came in between.
_FIRST_OFFSETS = Path("penstock") / "first-offsets.json"
# Nor this: the ids of the topics that the offsets are of (data_loss.py).
_TOPIC_IDS = Path("penstock") / "topics.json"
# Written and removed before each start: what Spark says of a full disk is harder to read.
_PROBE = Path("penstock") / "probe"

_LOGS = ("commits", "offsets")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class CheckpointFolder:
    """One stream's checkpoint in a mounted folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def location(self) -> str:
        """What Spark calls checkpointLocation."""
        return self.path.absolute().as_uri()

    def repair(self, spec: StreamSpec) -> RepairPlan:
        """Mends what a crash, or another of Spark's engines, left; only while no query runs."""
        with _telling_of_the_volume(self.path):
            _probe(self.path / _PROBE)
            state = any(path.is_file() for path in (self.path / "state").rglob("*"))
            found = engine_switch.plan(self._read(), spec, state=state)
            self._carry_out(found)
        return found

    def go_on_from(self, offsets: Offsets) -> None:
        """Makes the query go on from other offsets than it has committed; only while none runs."""
        with _telling_of_the_volume(self.path):
            self._carry_out(repair.plan_offsets(self._read(), offsets))

    def epoch(self) -> int | None:
        """The newest committed epoch."""
        return repair.committed_epoch(_names(self.path / "commits"))

    def planned(self) -> int | None:
        """The newest epoch whose offsets were written, committed or not."""
        return repair.committed_epoch(_names(self.path / "offsets"))

    def committed_offsets(self) -> Offsets | None:
        """Kafka's offsets at the newest commit; None before the first."""
        epoch = self.epoch()
        if epoch is None:
            return None
        try:
            return kafka_offsets((self.path / "offsets" / str(epoch)).read_bytes())
        # Purged while we looked, not mended yet, or of a source that is not Kafka.
        except (FileNotFoundError, ValueError, AttributeError):
            return None

    def first_offsets(self) -> Offsets | None:
        """Where the stream first began, if it has begun; raises if that can't be read any more."""
        target = self.path / _FIRST_OFFSETS
        try:
            document = json.loads(target.read_text())
            return {
                topic: {int(p): offset for p, offset in of.items()}
                for topic, of in document.items()
            }
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError) as error:
            raise DriverError(
                Failure(
                    "CheckpointDamaged",
                    f"nothing is committed yet, and {_FIRST_OFFSETS} cannot be read, where "
                    "Penstock noted at which offsets this stream began: to begin at today's newest "
                    "would skip what came since. Restore the file; or remove it to begin there",
                    permanent=True,
                )
            ) from error

    def keep_first_offsets(self, offsets: Offsets) -> None:
        """Remembers where the stream begins, before it does."""
        target = self.path / _FIRST_OFFSETS
        with _telling_of_the_volume(self.path):
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, json.dumps(offsets).encode())
            sync(target.parent)

    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that the offsets are of, as far as they are known."""
        try:
            document = json.loads((self.path / _TOPIC_IDS).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return {str(topic): str(identity) for topic, identity in document.items()}

    def keep_topic_ids(self, ids: Mapping[str, str]) -> None:
        """Remembers the topics, before the first of their offsets is committed."""
        target = self.path / _TOPIC_IDS
        with _telling_of_the_volume(self.path):
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, json.dumps(ids).encode())
            sync(target.parent)

    def _read(self) -> dict[str, bytes]:
        folders = [*_LOGS, *(f"sources/{name}" for name in _folders(self.path / "sources"))]
        paths = [f"{folder}/{name}" for folder in folders for name in _names(self.path / folder)]
        paths += [name for name in _names(self.path) if "metadata" in name]
        return {name: (self.path / name).read_bytes() for name in paths}

    def _carry_out(self, repair: RepairPlan) -> None:
        """In order also across a power cut: each group is on the disk before the next begins.

        Files go before their checksums. A file that only its checksum gave away would otherwise
        pass for whole, if the machine stopped in between.
        """
        for (folder, _), names in groupby(repair.delete, key=group):
            for name in names:
                remove(self.path / name)
            sync(self.path / folder)
        for name, content in repair.write.items():
            _write(self.path / name, content)
        for written in {(self.path / name).parent for name in repair.write}:
            sync(written)


def group(name: str) -> tuple[str, bool]:
    """What may be deleted in any order: the files of one folder, or what is hidden in it."""
    folder, _, file = name.rpartition("/")
    return folder, file.startswith(".")


def remove(path: Path) -> None:
    """Deletes a file that may be gone already."""
    path.unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """Makes the folder's entries survive a power cut."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(target: Path, content: bytes) -> None:
    """All of the file or nothing of it, also across a power cut once its folder is synced."""
    draft = target.with_name(f".{target.name}.tmp")
    write_draft(draft, content)
    put_in_place(draft, target)


def write_draft(draft: Path, content: bytes) -> None:
    """Writes a file that is on the disk before this returns."""
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def put_in_place(draft: Path, target: Path) -> None:
    """Gives a draft its name, in place of what had it."""
    draft.replace(target)


def _probe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_draft(path, b"Penstock could write here.\n")
    path.unlink()


@contextmanager
def _telling_of_the_volume(folder: Path) -> Iterator[None]:
    """What the operating system says of the checkpoint's volume, as something to be done."""
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        if error.errno in _FULL:
            raise DriverError(
                Failure(
                    "CheckpointFull",
                    f"there is no room in the checkpoint's volume ({folder}: {why}): raise "
                    "spec.checkpoint.volume.size, or remove from it what is not the stream's",
                    permanent=True,
                    recoverable=True,
                )
            ) from error
        raise DriverError(
            Failure(
                "CheckpointNotAccessible",
                f"the checkpoint cannot be read and written ({folder}: {why}): check that its "
                "volume is mounted for writing, healthy, and open to the driver's user",
                permanent=True,
                recoverable=True,
            )
        ) from error


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in _scan(folder) if entry.is_file()]


def _folders(folder: Path) -> list[str]:
    return [entry.name for entry in _scan(folder) if entry.is_dir()]


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
