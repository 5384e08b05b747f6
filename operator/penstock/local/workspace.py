"""The files that outlive a run: those of a stream, and the user's cache of downloads."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from penstock.command_line import CommandError
from penstock.local.errors import refusing

FOLDER = Path(".penstock")
CHOOSE_FOLDER = "choose a folder that you can write to with --checkpoint"
CHOOSE_CACHE = "set XDG_CACHE_HOME to a folder that you can write to"


@dataclass(frozen=True)
class Workspace:
    """The checkpoint folder, and the files next to it that carry its name."""

    checkpoint: Path

    @property
    def log(self) -> Path:
        """The log of the driver and its JVM while the terminal shows the live view."""
        return self.checkpoint.with_name(f"{self.checkpoint.name}.log")

    @property
    def broker(self) -> Path:
        """The data of the --with-kafka broker, kept per checkpoint because offsets are."""
        return self.checkpoint.with_name(f"{self.checkpoint.name}.kafka")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock on the workspace: two runs over one checkpoint would damage it.

        Raises CommandError if another run holds it, or if it cannot be written.
        """
        folder = self.checkpoint.parent
        with contextlib.ExitStack() as undo:
            with refusing(folder, CHOOSE_FOLDER):
                folder.mkdir(parents=True, exist_ok=True)
                path = self.checkpoint.with_name(f"{self.checkpoint.name}.lock")
                self._lock(undo.enter_context(path.open("w")))
            yield

    def _lock(self, file: TextIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandError(
                f"another run uses {self.checkpoint}: stop it, or choose another --checkpoint"
            ) from error


def workspace_for(stream: str, checkpoint: Path | None, with_kafka: bool) -> Workspace:
    """The workspace at the given checkpoint, or the stream's own in the working directory.

    A run with its own broker has a separate one: the same offsets are other records there.
    """
    if checkpoint is not None:
        return Workspace(checkpoint.absolute())
    name = f"{stream}-with-kafka" if with_kafka else stream
    return Workspace((FOLDER / name / "checkpoint").absolute())


def hide_from_git() -> None:
    """Creates the folder with a .gitignore of its own, so that nobody commits it.

    Raises CommandError if it cannot be written.
    """
    with refusing(FOLDER.absolute(), CHOOSE_FOLDER):
        FOLDER.mkdir(exist_ok=True)
        ignore = FOLDER / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")


def short_path(path: Path) -> str:
    """The path relative to the working directory, if it is inside it."""
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return os.fspath(path)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """For what is downloaded or computed once; deleting it is always safe.

    ~/.cache/penstock/run, or in the user's XDG_CACHE_HOME. Raises CommandError without either.
    """
    try:
        base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:  # a user without a name, as in a container, and without HOME
        raise CommandError(f"you have no home folder: {CHOOSE_CACHE}", code=2) from error
    return Path(base) / "penstock" / "run"
