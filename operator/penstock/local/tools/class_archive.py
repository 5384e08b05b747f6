"""Archives of loaded classes (AppCDS), with which a JVM starts in half the time.

A JVM without one lists the classes that it loads, and a second JVM writes them to an archive while
the first one works. A static archive, which holds the JDK's own classes too, starts a JVM with a
quarter less processor time than a dynamic one (-XX:ArchiveClassesAtExit), and no exit waits for it.
The image has one too (images/spark/class_archive.py). A JVM that cannot use its archive starts
without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.command_line import CommandError
from penstock.local.workspace import cache_folder

# Each has about 160 MB. Streams share one, unless their JVMs differ.
_MOST_KEPT = 3
_WRITE_SECONDS = 200.0
# No process takes so long to write one.
_LEFT_SECONDS = 3600.0
# The JVM prints warnings about archives on stdout, which is for records.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_OWN_CHOICE = (
    "-XX:SharedArchiveFile",
    "-XX:ArchiveClassesAtExit",
    "-Xshare",
    "-XX:SharedClassList",
    "-XX:DumpLoadedClassList",
)
# Its own process, which the end of this one does not end, with the lowest priority.
_WRITE = '(nice -n 19 "$@" && mv "$draft" "$archive"; rm -f "$draft" "$classes") > /dev/null 2>&1 &'


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one command line; `path` is None if there shall be none."""

    path: Path | None
    command: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The JVM options that use the archive or, if it does not exist, list the classes."""
        if self.path is None:
            return ()
        return self.options_if_written or (list_option(self._listed), *_QUIET)

    @property
    def options_if_written(self) -> tuple[str, ...]:
        """The JVM options that use the archive; none if it does not exist."""
        if self.path is None or not self.path.exists():
            return ()
        return (f"-XX:SharedArchiveFile={self.path}", *_QUIET)

    def write(self) -> None:
        """Starts to write the archive from the classes listed so far, and does not wait for it.

        Nothing happens the second time, or if it exists, or no JVM lists its classes.
        """
        if self.path is None or self.path.exists() or not self._listed.exists():
            return
        with contextlib.suppress(OSError):  # a full disk is no reason to end a run
            self._write(self.path)

    def _write(self, archive: Path) -> None:
        classes, draft = Path(f"{self._listed}-classes"), Path(f"{self._listed}-draft")
        if classes.exists():
            return
        whole_lines = self._listed.read_text(errors="replace").rpartition("\n")[0]
        classes.write_text(f"{whole_lines}\n")
        subprocess.run(
            ["sh", "-c", _WRITE, "sh", *write_command(self.command, classes, draft)],
            env={
                **os.environ,
                "draft": str(draft),
                "archive": str(archive),
                "classes": str(classes),
            },
            check=False,
            start_new_session=True,  # whoever ends this command's group does not end it
        )

    def keep(self) -> None:
        """Notes that it was used, and removes the oldest others and the list of this process."""
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            self._listed.unlink(missing_ok=True)
            if self.path.exists():
                os.utime(self.path)
            for old in _oldest(self.path.parent):
                old.unlink(missing_ok=True)

    @property
    def _listed(self) -> Path:
        assert self.path is not None
        return self.path.with_suffix(f".{os.getpid()}")


def is_being_written() -> bool:
    """Whether a process writes an archive; of one that was killed it is believed for a while."""
    now, lists = time.time(), (cache_folder() / "classes").glob("*-classes")
    return any(now - classes.stat().st_mtime < _WRITE_SECONDS for classes in lists)


def list_option(target: Path) -> str:
    """The option of a JVM that lists the classes that it loads."""
    return f"-XX:DumpLoadedClassList={target}"


def write_command(command: Sequence[str], classes: Path, archive: Path) -> list[str]:
    """The command that writes listed classes to an archive for JVMs of this command line."""
    options = [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}", *_QUIET]
    return [command[0], "-Xshare:dump", *options, *command[1:]]


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
    return ClassArchive(folder / f"{name}.jsa", tuple(command))


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
    """All but the most recently used archives, and what killed processes have left."""
    by_use = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    archives = [path for path in by_use if path.suffix == ".jsa"]
    left = [path for path in by_use if time.time() - path.stat().st_mtime > _LEFT_SECONDS]
    return archives[_MOST_KEPT:] + [path for path in left if path not in archives]
