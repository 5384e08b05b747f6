"""Archives of loaded classes (AppCDS), with which a JVM starts in half the time.

A JVM that ends cleanly writes its archive, if there is none; later JVMs of its command use it.
The image has one too (images/spark/train.py). A JVM that cannot use its archive starts without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.local.errors import CommandError
from penstock.local.workspace import cache_folder

# Each has about 160 MB. Streams share one, unless their JVMs differ.
_MOST_KEPT = 3
# The JVM prints warnings about archives on stdout, which is for records.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_OWN_CHOICE = (
    "-XX:SharedArchiveFile",
    "-XX:ArchiveClassesAtExit",
    "-Xshare",
    "-XX:SharedClassList",
)


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one command line; `path` is None if there shall be none."""

    path: Path | None

    @property
    def options(self) -> tuple[str, ...]:
        """The JVM options that use the archive or, if it does not exist, write it at the end."""
        if self.path is None:
            return ()
        if self.path.exists():
            return (f"-XX:SharedArchiveFile={self.path}", *_QUIET)
        return (f"-XX:ArchiveClassesAtExit={self._draft}", *_QUIET)

    @property
    def is_missing(self) -> bool:
        """Whether the JVM will write it, which takes some seconds at its end."""
        return self.path is not None and not self.path.exists()

    def keep(self) -> None:
        """Puts the archive that the JVM has written in its place, and removes the oldest others."""
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            if self._draft.exists():
                self._draft.replace(self.path)
            elif self.path.exists():
                os.utime(self.path)
            for old in _oldest(self.path.parent):
                old.unlink(missing_ok=True)

    @property
    def _draft(self) -> Path:
        assert self.path is not None
        return self.path.with_suffix(f".{os.getpid()}")


def archive_for(command: Sequence[str]) -> ClassArchive:
    """The archive for this command line of a JVM, whose first word is the java command.

    There is none if the user has chosen one, or if the cache cannot be written.
    """
    if any(word.startswith(_OWN_CHOICE) for word in command):
        return ClassArchive(None)
    java = shutil.which(command[0]) or command[0]
    try:
        folder = cache_folder() / "classes"
        folder.mkdir(parents=True, exist_ok=True)
        name = key(command, _files([str(Path(java).resolve()), *_class_path(command)]))
    except (OSError, CommandError):
        return ClassArchive(None)
    return ClassArchive(folder / f"{name}.jsa")


def key(command: Sequence[str], files: Iterable[tuple[str, int, int]]) -> str:
    """A name for the archive: another command, Java or jar has another. Pure."""
    parts = [*command, *(f"{path} {size} {changed}" for path, size, changed in files)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _class_path(command: Sequence[str]) -> list[str]:
    if "-cp" not in command:
        return []
    return command[command.index("-cp") + 1].split(os.pathsep)


def _files(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    """Path, size and time of change of each file, with those of `folder/*`."""
    files = [
        file
        for path in map(Path, paths)
        for file in (sorted(path.parent.glob("*.jar")) if path.name == "*" else [path])
    ]
    stats = [(str(file), file.stat()) for file in files if file.exists()]
    return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]


def _oldest(folder: Path) -> list[Path]:
    """All but the most recently used archives, and what a killed JVM has left."""
    by_use = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    return by_use[_MOST_KEPT:]
