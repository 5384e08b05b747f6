"""What Spark writes into a checkpoint, file operation by file operation, and where it can stop."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.driver.checkpoint.files import Files, checksum_path
from testkit.wait import repeat_in_background

_UNIQUE = re.compile(r"\.[0-9a-f-]{36}\.tmp")


@dataclass(frozen=True)
class Create:
    """A file under a temporary name."""

    path: str
    content: bytes


@dataclass(frozen=True)
class Rename:
    """A temporary file gets its name."""

    path: str
    to: str


Write = Create | Rename


def writes(folder: Path, files: Files) -> list[Write]:
    """The operations that led to these files, in their order.

    The order of the files is that of their times; that within a file was seen with strace (Spark
    4.2), and a `Watch` holds it against the run.
    """
    whole = [path for path in files if not path.rpartition("/")[2].startswith(".")]
    in_order = sorted(whole, key=lambda path: (folder / path).stat().st_mtime_ns)
    return [write for path in in_order for write in _of(path, files)]


def _of(path: str, files: Files) -> Iterator[Write]:
    where, slash, name = path.rpartition("/")
    draft = f"{where}{slash}.{name}.tmp"
    yield Create(draft, files[path])
    # A stop takes a moment: the last file may have none.
    if checksum_path(path) in files:
        yield Create(checksum_path(draft), files[checksum_path(path)])
    yield Rename(draft, path)
    if checksum_path(path) in files:
        yield Rename(checksum_path(draft), checksum_path(path))


def cut(done: Sequence[Write], at: int, window: int, rng: random.Random) -> dict[str, bytes]:
    """What is left when the machine stops: the last few operations in part, or not at all.

    Nothing is synced, so any of them may not have come to the disk, and a file may be there under
    its name without what was written into it. A window of 0 is the end of a process.
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
    """Listings of a checkpoint's folders while a query writes into it."""

    def __init__(self, folder: Path) -> None:
        self.seen: set[tuple[str, frozenset[str]]] = set()
        self._folder = folder

    def look(self) -> None:
        """One listing of each folder; each is of one moment, for it is small."""
        for where in ("offsets", "commits", "sources/0"):
            with suppress(FileNotFoundError), os.scandir(self._folder / where) as entries:
                names = frozenset(_UNIQUE.sub(".tmp", entry.name) for entry in entries)
                self.seen.add((where, names))


@contextmanager
def watching(folder: Path) -> Iterator[Watch]:
    """Looks as often as it can, for the length of the block."""
    watch = Watch(folder)
    with repeat_in_background(watch.look, 0.002):
        yield watch


def listings(done: Iterable[Write]) -> set[tuple[str, frozenset[str]]]:
    """Every listing that can be seen while these operations happen."""
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
