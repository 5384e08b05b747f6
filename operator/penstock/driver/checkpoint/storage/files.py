"""A checkpoint's files, on a volume (volume.py) or in an object store (object_store.py).

Paths are relative to the checkpoint. Operations raise OSError, which `errors` turns into the
failure that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol


class CheckpointFiles(Protocol):
    """The files of one checkpoint."""

    @property
    def location(self) -> str:
        """The checkpointLocation for Spark."""

    def names(self, folder: str) -> list[str]:
        """The files in a folder; none if there is no such folder."""

    def folders(self, folder: str) -> list[str]:
        """The folders in a folder."""

    def holds_files(self, folder: str) -> bool:
        """Whether there is a file in a folder, or below it."""

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The contents of those of these files that exist."""

    def write(self, path: str, content: bytes) -> None:
        """Writes or replaces a file, all of it or nothing; lasting once its folder is synced."""

    def remove(self, path: str) -> None:
        """Deletes a file, if it exists."""

    def remove_folder(self, folder: str) -> None:
        """Deletes a folder and all files in it and below it, if it exists."""

    def sync(self, folder: str) -> None:
        """Makes what was written to a folder and removed from it last."""

    def check_writable(self, path: str) -> None:
        """Writes and removes this file, as Spark does with the files of its logs."""

    def entries(self, log: str) -> list[int]:
        """The numbers of a log's entries, cheaply enough to ask four times a second."""

    def written_at(self, log: str, number: int) -> float | None:
        """When an entry was written, in seconds since 1970; None if there is none."""

    def content(self, log: str, number: int) -> bytes | None:
        """The content of an entry; None if there is none."""

    def errors(self, folder: str = "") -> AbstractContextManager[None]:
        """Raises DriverError in place of an OSError."""


class Checkpoints(Protocol):
    """The checkpoints of one stream, one for each generation."""

    def generation(self, number: int) -> CheckpointFiles:
        """That of a generation, whether it exists or not."""

    def generations(self) -> dict[int, CheckpointFiles]:
        """Those that exist, by number."""
