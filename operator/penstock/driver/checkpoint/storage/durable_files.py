"""Files that survive a power cut, and errors of the checkpoint's volume as failures."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.driver.failures import (
    CHECKPOINT_FULL,
    CHECKPOINT_NOT_ACCESSIBLE,
    DriverError,
    Failure,
)

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def remove(path: Path) -> None:
    """Deletes a file if it exists."""
    path.unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """Makes the entries of a folder survive a power cut."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(target: Path, content: bytes) -> None:
    """Writes a file atomically; it survives a power cut once its folder is synced."""
    draft = target.with_name(f".{target.name}.tmp")
    write_draft(draft, content)
    put_in_place(draft, target)


def write_draft(draft: Path, content: bytes) -> None:
    """Writes a file and syncs it to the disk."""
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def put_in_place(draft: Path, target: Path) -> None:
    """Renames a draft to its target, which it replaces."""
    draft.replace(target)


def check_writable(path: Path) -> None:
    """Creates, syncs, renames and removes a file, as Spark does with the files of its logs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, b"Penstock could write here.\n")
    path.unlink()


@contextmanager
def volume_errors(folder: Path) -> Iterator[None]:
    """Turns an OSError into a failure that says what to do about the checkpoint's volume."""
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        if error.errno in _NO_SPACE:
            raise DriverError(
                Failure(
                    CHECKPOINT_FULL,
                    f"The checkpoint's volume is full ({folder}: {why}). Raise "
                    "spec.checkpoint.volume.size, or delete files that do not belong to the "
                    "stream.",
                    permanent=True,
                    recoverable=True,
                )
            ) from error
        raise DriverError(
            Failure(
                CHECKPOINT_NOT_ACCESSIBLE,
                f"The checkpoint cannot be read and written ({folder}: {why}). Check that its "
                "volume is mounted read-write, healthy, and accessible to the driver's user.",
                permanent=True,
                recoverable=True,
            )
        ) from error
