"""Spark's file operations on a checkpoint, and what is left if they are interrupted."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.driver.background_threads import repeat_in_background
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.plain_spark import checksum_path

_UNIQUE = re.compile(r"\.[0-9a-f-]{36}\.tmp")


@dataclass(frozen=True)
class Create:
    """Creates a file under a temporary name."""

    path: str
    content: bytes


@dataclass(frozen=True)
class Rename:
    """Renames a temporary file to its final name."""

    path: str
    to: str


Write = Create | Rename


def writes(folder: Path, files: Files) -> list[Write]:
    """The operations that created these files, in their order.

    The files are in the order of their times. The operations for one file were observed with strace
    (Spark 4.2), and the listings of a `Watch` confirm them for each run.
    """
    whole = [path for path in files if not path.rpartition("/")[2].startswith(".")]
    in_order = sorted(whole, key=lambda path: (folder / path).stat().st_mtime_ns)
    return [write for path in in_order for write in writes_of(path, files)]


def writes_of(path: str, files: Files) -> Iterator[Write]:
    """The operations that create one of these files."""
    where, slash, name = path.rpartition("/")
    draft = f"{where}{slash}.{name}.tmp"
    yield Create(draft, files[path])
    # The last file before a stop may have no checksum.
    if checksum_path(path) in files:
        yield Create(checksum_path(draft), files[checksum_path(path)])
    yield Rename(draft, path)
    if checksum_path(path) in files:
        yield Rename(checksum_path(draft), checksum_path(path))


def cut(done: Sequence[Write], at: int, window: int, rng: random.Random) -> dict[str, bytes]:
    """The files after the machine stops at operation `at`: the last `window` ones may be partial.

    Nothing is synced, so any of these operations may not have reached the disk, and a file may
    exist under its name without its contents. With a window of 0 only the process stops.
    """
    sure = max(0, at - window)
    files: dict[str, bytes] = {}
    for number, write in enumerate(done[:at]):
        if number >= sure and rng.random() < 0.3:
            continue
        if isinstance(write, Create):
            content = write.content
            files[write.path] = _in_part(content, rng) if number >= sure else content
        elif write.path in files:
            files[write.to] = files.pop(write.path)
    return files


def _in_part(content: bytes, rng: random.Random) -> bytes:
    some = rng.randrange(len(content) + 1)
    return rng.choice([content, content, b"", content[:some], bytes(len(content))])


class Watch:
    """Listings of a checkpoint's folders while a query writes to it."""

    def __init__(self, folder: Path) -> None:
        self.seen: set[tuple[str, frozenset[str]]] = set()
        self._folder = folder

    def list_folders(self) -> None:
        """Lists each folder. One listing is consistent, because the folders are small."""
        for where in ("offsets", "commits", "sources/0"):
            with suppress(FileNotFoundError), os.scandir(self._folder / where) as entries:
                names = frozenset(_UNIQUE.sub(".tmp", entry.name) for entry in entries)
                self.seen.add((where, names))


@contextmanager
def watching(folder: Path) -> Iterator[Watch]:
    """Lists the folders as often as possible during the block."""
    watch = Watch(folder)
    with repeat_in_background(watch.list_folders, 0.002):
        yield watch


def listings(done: Iterable[Write]) -> set[tuple[str, frozenset[str]]]:
    """All listings that are possible during these operations."""
    found: set[tuple[str, frozenset[str]]] = set()
    names: dict[str, set[str]] = {}
    for write in done:
        where, _, name = write.path.rpartition("/")
        there = names.setdefault(where, set())
        found.add((where, frozenset(there)))
        if isinstance(write, Create):
            there.add(name)
        else:
            there.remove(name)
            there.add(write.to.rpartition("/")[2])
        found.add((where, frozenset(there)))
    return found
