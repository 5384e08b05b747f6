"""Where a local run keeps what outlives it: the checkpoint, the log, the broker's records."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.local.errors import Refused

FOLDER = Path(".penstock")


@dataclass(frozen=True)
class Home:
    """The checkpoint, and what lies beside it under the same name."""

    checkpoint: Path

    @property
    def log(self) -> Path:
        """The driver's and its JVM's log lines, while the terminal shows the view."""
        return self.checkpoint.with_name(f"{self.checkpoint.name}.log")

    @property
    def broker(self) -> Path:
        """The records of --with-kafka: offsets of the checkpoint mean nothing to another broker."""
        return self.checkpoint.with_name(f"{self.checkpoint.name}.kafka")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """For one run at a time: two over one checkpoint would spoil it."""
        folder = self.checkpoint.parent
        folder.mkdir(parents=True, exist_ok=True)
        with self.checkpoint.with_name(f"{self.checkpoint.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Refused(
                    f"another run uses {self.checkpoint}: stop it, or choose another --checkpoint"
                ) from error
            yield


def home_of(stream: str, given: Path | None, with_kafka: bool) -> Home:
    """Where the user said, or a folder named after the stream where the command is given.

    A run with a broker of its own has another one: the same offsets are other records there.
    """
    if given is not None:
        return Home(given.absolute())
    name = f"{stream}-with-kafka" if with_kafka else stream
    return Home((FOLDER / name / "checkpoint").absolute())


def hide_from_git(folder: Path = FOLDER) -> None:
    """As other tools' folders of this kind do: nobody wants to commit them."""
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


def shown(path: Path) -> str:
    """A path as short as it can be said here."""
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return os.fspath(path)
