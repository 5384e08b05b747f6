"""Allows one driver at a time for a checkpoint.

A pod that was force-deleted, or that the API server has lost contact with, may still run when the
next one starts ("force deletions do not wait for confirmation from the kubelet": Kubernetes,
"Force Delete StatefulSet Pods"). Two drivers would write the same epochs with different offsets.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path

from penstock.driver.failures import DriverError, Failure
from penstock.driver.logs import log_event

_LOCK = Path("penstock") / "lock"
# The kubelet's default grace period plus the time that a stop takes after it.
_TIMEOUT_SECONDS = 40.0


def acquire(checkpoint: Path, timeout: float = _TIMEOUT_SECONDS) -> int | None:
    """Locks the checkpoint. Waits up to `timeout` seconds, then raises CheckpointInUse.

    Returns the descriptor that holds the lock. A process that inherits it holds the lock too; the
    kernel releases the lock when the last of them closes it or exits. Returns None if the volume
    has no locks or is not writable: the repair of the checkpoint reports the latter in more detail.
    """
    path = checkpoint / _LOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _is_acquired(lock, timeout):
            os.close(lock)
            raise _in_use(checkpoint, timeout)
    except OSError as error:
        log_event("the checkpoint cannot be locked", logging.WARNING, error=str(error))
        return None
    return lock


def release(lock: int | None) -> None:
    """Closes this process's descriptor; a process that inherited it still holds the lock."""
    if lock is not None:
        os.close(lock)


def _is_acquired(lock: int, timeout: float) -> bool:
    deadline, logged = time.monotonic() + timeout, False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        if not logged:
            log_event("waiting for another driver to release the checkpoint")
            logged = True
        time.sleep(0.1)


def _in_use(checkpoint: Path, timeout: float) -> DriverError:
    return DriverError(
        Failure(
            "CheckpointInUse",
            f"Another driver has held the lock on {checkpoint} for {timeout:.0f} s. It is an "
            "earlier pod of this stream that has not ended, or a run by hand. Check the node where "
            "the earlier pod ran.",
        )
    )
