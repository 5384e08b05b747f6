"""Allows one driver at a time for a checkpoint.

A pod that was force-deleted, or that the API server has lost contact with, may still run when the
next one starts ("force deletions do not wait for confirmation from the kubelet": Kubernetes,
"Force Delete StatefulSet Pods"). Two drivers would write the same epochs with different offsets.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from penstock.contract import naming
from penstock.driver.checkpoint.storage import durable_files
from penstock.driver.failures import CHECKPOINT_NOT_ACCESSIBLE, DriverError, Failure
from penstock.driver.logs import log_event

_LOCK = Path("penstock") / "lock"
# Locked by the driver that waits for the other lock.
_NEXT = Path("penstock") / "next"
# What flock(2) and fcntl(2) answer where the file system has no locks, or its lock manager none
# left: NFS without lockd, FUSE without flock, object storage mounted as files.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
# A driver that still stops takes no longer than its pod's grace period.
_TIMEOUT_SECONDS = naming.GRACE_SECONDS + 10.0


def acquire(checkpoint: Path, timeout: float = _TIMEOUT_SECONDS) -> int:
    """Locks the checkpoint. Waits up to `timeout` seconds, then raises the reason as a failure.

    That is CheckpointInUse, or what is wrong with the volume: nothing may write a checkpoint
    without its lock. Returns the descriptor that holds the lock. A process that inherits it holds
    the lock too; the kernel releases the lock when the last of them closes it or exits.
    """
    path, place = checkpoint / _LOCK, None
    deadline, logged = time.monotonic() + timeout, False
    try:
        while True:
            failure: DriverError
            try:
                with durable_files.volume_errors(checkpoint):
                    lock = _open_and_lock(path)
                    if lock is not None:
                        return lock
                    place = _open_and_lock(checkpoint / _NEXT) if place is None else place
                failure = _in_use(checkpoint, timeout)
            except DriverError as error:
                if getattr(error.__cause__, "errno", None) in _NO_LOCKS:
                    raise _no_locks(checkpoint) from error
                failure = error
            if time.monotonic() >= deadline:
                raise failure
            if not logged:
                log_event("waiting for the lock of the checkpoint", cause=failure.failure.message)
                logged = True
            time.sleep(0.1)
    finally:
        if place is not None:
            os.close(place)


def is_awaited(checkpoint: Path) -> bool:
    """Whether another driver waits for the lock; also False if that cannot be seen."""
    try:
        place = _open_and_lock(checkpoint / _NEXT)
    except OSError:
        return False
    if place is not None:
        os.close(place)
    return place is None


def _open_and_lock(path: Path) -> int | None:
    """The descriptor that holds the lock; None if another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        os.close(lock)
        raise
    return lock


def release(lock: int) -> None:
    """Closes this process's descriptor; a process that inherited it still holds the lock."""
    os.close(lock)


def _in_use(checkpoint: Path, timeout: float) -> DriverError:
    return DriverError(
        Failure(
            "CheckpointInUse",
            f"Another driver has held the lock on {checkpoint} for {timeout:.0f} s. It is an "
            "earlier pod of this stream that has not ended, or a run by hand. Check the node where "
            "the earlier pod ran.",
        )
    )


def _no_locks(checkpoint: Path) -> DriverError:
    return DriverError(
        Failure(
            CHECKPOINT_NOT_ACCESSIBLE,
            f"The volume of {checkpoint} has no file locks, so that two drivers could write one "
            "checkpoint. Use a volume with locks, as all local file systems have; NFS needs "
            "version 4, or a lock manager.",
            permanent=True,
        )
    )
