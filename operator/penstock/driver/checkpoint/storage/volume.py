"""Checkpoints in folders, which are on a mounted volume."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.driver.checkpoint.storage import durable_files
from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.environment import Environment
from penstock.driver.failures import CHECKPOINT_NOT_ACCESSIBLE, DriverError, Failure

# Longer than a tick of the clock that stamps files, which is 10 ms at most; and than one of a file
# system that keeps whole seconds, such as ext3 behind NFS, or every other one, such as FAT.
_TICK_SECONDS = 0.05
_COARSE_TICK_SECONDS = 2.05
_NANOSECONDS = 1_000_000_000


class VolumeCheckpoints:
    """The folders of one stream's generations."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def generation(self, number: int) -> CheckpointFiles:
        return VolumeFiles(self._environment.generation(number))

    def generations(self) -> dict[int, CheckpointFiles]:
        folders = self._environment.generations()
        return {n: VolumeFiles(path) for n, path in folders.items()}


@dataclass(frozen=True)
class _Listing:
    """What a log held when its folder had this time."""

    changed: int
    numbers: list[int]
    first_seen: float
    """When the folder was first seen with this time, on the monotonic clock."""
    is_final: bool
    """Every later change gives the folder another time."""


class VolumeFiles:
    """The files in a folder. Its logs are not for use by two threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listed: dict[str, _Listing] = {}

    @property
    def location(self) -> str:
        """Spark takes it as it is: with %20 for a space it would be another folder
        (org.apache.hadoop.fs.Path).
        """
        return f"file://{self.path.absolute()}"

    def names(self, folder: str) -> list[str]:
        return [entry.name for entry in _scan(self.path / folder) if entry.is_file()]

    def folders(self, folder: str) -> list[str]:
        return [entry.name for entry in _scan(self.path / folder) if entry.is_dir()]

    def holds_files(self, folder: str) -> bool:
        return any(path.is_file() for path in (self.path / folder).rglob("*"))

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        contents = {}
        for path in paths:
            try:
                contents[path] = (self.path / path).read_bytes()
            except FileNotFoundError:
                continue
        return contents

    def write(self, path: str, content: bytes) -> None:
        target = self.path / path
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
            durable_files.sync(target.parent.parent)
        durable_files.write(target, content)

    def remove(self, path: str) -> None:
        durable_files.remove(self.path / path)

    def remove_folder(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path / folder)
            durable_files.sync((self.path / folder).parent)

    def sync(self, folder: str) -> None:
        durable_files.sync(self.path / folder)

    def check_writable(self, path: str) -> None:
        durable_files.check_writable(self.path / path)

    def errors(self, folder: str = "") -> AbstractContextManager[None]:
        return durable_files.volume_errors(self.path / folder)

    def entries(self, log: str) -> list[int]:
        """The folder is listed only if its time has changed.

        Two changes within one tick have the same time, so a listing counts from a tick later on. A
        file server and a clock that jumps have other times than this process: only the monotonic
        clock can tell.
        """
        folder = self.path / log
        try:
            with _volume_answers(folder):
                changed, now = folder.stat().st_mtime_ns, time.monotonic()
                known = self._listed.get(log)
                if known is not None and known.changed == changed and known.is_final:
                    return known.numbers
                with os.scandir(folder) as entries:
                    numbers = [int(entry.name) for entry in entries if entry.name.isdecimal()]
        except FileNotFoundError:
            return []
        first_seen = known.first_seen if known is not None and known.changed == changed else now
        tick = _TICK_SECONDS if changed % _NANOSECONDS else _COARSE_TICK_SECONDS
        self._listed[log] = _Listing(changed, numbers, first_seen, now - first_seen > tick)
        return numbers

    def written_at(self, log: str, number: int) -> float | None:
        file = self.path / log / str(number)
        try:
            with _volume_answers(file):
                return file.stat().st_mtime
        except FileNotFoundError:
            return None

    def content(self, log: str, number: int) -> bytes | None:
        file = self.path / log / str(number)
        try:
            with _volume_answers(file):
                return file.read_bytes()
        except FileNotFoundError:
            return None


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


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
