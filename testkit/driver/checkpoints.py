"""Checkpoints as values: built as Spark writes them, and repaired as in a folder."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.file_formats import Entry, Files
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.logs import Step, sync_group
from penstock.driver.checkpoint.plain_spark import checksum_path
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.storage import durable_files
from penstock.driver.checkpoint.storage.volume import VolumeFiles
from penstock.driver.kafka.offsets import Offsets

METADATA = b'{"id":"88eb3c42-51b1-4cc2-89bb-8fe485045c84"}'
COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
BATCH_LINE = b'{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{}}'
INITIAL_OFFSETS = b'\0v1\n{"in":{"0":0,"1":0}}'


def offsets(epoch: int, line: bytes = b"", reads: int = 1) -> bytes:
    """Offsets of the continuous engine; with a line of metadata, those of the batch engines."""
    read = f'\n{{"in":{{"0":{epoch * 10},"1":{epoch * 7}}}}}'
    return b"v1\n" + line + (read * reads).encode()


def checksum(content: bytes) -> bytes:
    """A checksum in Hadoop's format: a header, the chunk size, a CRC32 for each chunk."""
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    return b"crc\x00" + struct.pack("!i", 512) + b"".join(struct.pack("!I", s) for s in sums)


def with_checksums(files: Files) -> dict[str, bytes]:
    """As plain Spark writes them."""
    return {**files} | {checksum_path(path): checksum(content) for path, content in files.items()}


def checkpoint(
    commits: Iterable[int], continuous: Iterable[int], batches: Iterable[int] = ()
) -> dict[str, bytes]:
    """A valid checkpoint with these commits, and offsets of the two kinds of engine."""
    files = {"metadata": METADATA}
    files |= {f"commits/{n}": COMMIT for n in commits}
    files |= {f"offsets/{n}": offsets(n) for n in continuous}
    return files | {f"offsets/{n}": offsets(n, BATCH_LINE) for n in batches}


def undo_commit(checkpoint: Path) -> int:
    """As if a driver was killed before its newest commit reached the disk; returns its number."""
    newest = max(int(it.name) for it in (checkpoint / "commits").iterdir() if it.name.isdigit())
    (checkpoint / "commits" / str(newest)).unlink()
    return newest


def apply_plan(files: Files, repair: RepairPlan) -> dict[str, bytes]:
    """The files after a repair."""
    after = dict(files)
    for step in repair.steps:
        _take(after, step)
    return after


def interrupted(files: Files, repair: RepairPlan, rng: random.Random) -> dict[str, bytes]:
    """The files after a power cut during a repair: any of the steps between two syncs are lost."""
    groups = [list(steps) for _, steps in groupby(repair.steps, key=sync_group)]
    reached = rng.randrange(len(groups) + 1)
    after = dict(files)
    for number, steps in enumerate(groups[: reached + 1]):
        for step in steps:
            if number < reached or rng.random() < 0.5:
                _take(after, step)
    return after


def _take(files: dict[str, bytes], step: Step) -> None:
    path, content = step
    if content is None:
        files.pop(path, None)
    else:
        files[path] = content


def folder_at(path: Path) -> CheckpointFolder:
    """The checkpoint in a folder."""
    return CheckpointFolder(VolumeFiles(path))


def path_of(folder: CheckpointFolder) -> Path:
    """The folder of a checkpoint."""
    return Path(folder.files.location.removeprefix("file://"))


def offsets_at(folder: CheckpointFolder, number: int) -> Offsets:
    """The Kafka offsets in an `offsets/N`."""
    return kafka_offsets((path_of(folder) / "offsets" / str(number)).read_bytes())


def kafka_offsets(content: bytes) -> Offsets:
    """The Kafka offsets in an `offsets/N`."""
    entry = Entry.parse(content)
    assert entry is not None
    assert entry.offsets is not None
    return entry.offsets


def names(files: Files) -> set[str]:
    """The files that are not hidden."""
    return {path for path in files if not path.rpartition("/")[2].startswith(".")}


def kinds(repair: RepairPlan) -> list[str]:
    """The kinds of the repairs."""
    return [each.kind.value for each in repair.repairs]


def write(files: Files, folder: Path) -> None:
    """Writes files into a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def read(folder: Path) -> dict[str, bytes]:
    """All files of Spark in a folder, commits before offsets, because a query may be running."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith("penstock/"):
            with suppress(FileNotFoundError):  # renamed or purged in the meantime
                found[name] = path.read_bytes()
    return found


# The operations on the file system.
STEPS = ("remove", "sync", "write_draft", "put_in_place")


class Crash(Exception):
    """The driver has crashed."""


class CrashAt:
    """Crashes an act at the operation after `step` operations; `torn` leaves half a draft."""

    def __init__(self, step: int, torn: bool) -> None:
        self.step = step
        self.came = False
        self._torn = torn
        self._done = 0

    def __call__(self, act: Callable[[], object]) -> None:
        with pytest.MonkeyPatch.context() as patch, suppress(Crash):
            for name in STEPS:
                patch.setattr(durable_files, name, self._bounded(name))
            act()

    def _bounded(self, name: str) -> Callable[..., None]:
        real: Callable[..., None] = getattr(durable_files, name)

        def operation(*arguments: Any) -> None:
            if self._done == self.step:
                if name == "write_draft" and self._torn:
                    path, content = arguments
                    path.write_bytes(content[: len(content) // 2])
                self.came = True
                raise Crash
            self._done += 1
            real(*arguments)

        return operation


def crashes(*, torn: bool = False, more_than: int = 5) -> Iterator[CrashAt]:
    """One crash after the other, each an operation later, up to the first that does not come."""
    for step in range(200):
        crash = CrashAt(step, torn)
        yield crash
        if not crash.came:
            assert step > more_than
            return
    raise AssertionError("the act does not end")


def note(folder: CheckpointFolder, **known: Any) -> None:
    """Notes this of a checkpoint, beside what is noted already."""
    folder.notes.update(lambda notes: replace(notes, **known))
