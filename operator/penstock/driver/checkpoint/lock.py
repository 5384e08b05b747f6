"""One driver at a time over a checkpoint.

A pod that was deleted by force, or that the API server has lost sight of, may still be running when
the next one starts ("force deletions do not wait for confirmation from the kubelet": Kubernetes,
"Force Delete StatefulSet Pods"). Two drivers would write the same epochs with offsets of their own.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path

from penstock.driver.failures import DriverError, Failure
from penstock.driver.logs import say

_LOCK = Path("penstock") / "lock"
# The kubelet's default grace period, and what a stop takes after it.
_PATIENCE_SECONDS = 40.0


def hold(checkpoint: Path, patience: float = _PATIENCE_SECONDS) -> int | None:
    """Locks the checkpoint, once no other driver holds it; raises CheckpointInUse if one keeps it.

    The descriptor that is returned is the lock, and a process that inherits it holds it too; the
    kernel lets go of it with the last of them, however that ends. None: the volume has no locks, or
    cannot be written, which the look at the checkpoint tells better.
    """
    path = checkpoint / _LOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _is_locked(lock, patience):
            os.close(lock)
            raise _in_use(checkpoint, patience)
    except OSError as error:
        say("the checkpoint cannot be locked", logging.WARNING, error=str(error))
        return None
    return lock


def let_go(lock: int | None) -> None:
    """Unlocks the checkpoint, as far as it is for this process to."""
    if lock is not None:
        os.close(lock)


def _is_locked(lock: int, patience: float) -> bool:
    """Tries for so many seconds."""
    deadline, told = time.monotonic() + patience, False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        if not told:
            say("waiting for another driver to let go of the checkpoint")
            told = True
        time.sleep(0.1)


def _in_use(checkpoint: Path, patience: float) -> DriverError:
    return DriverError(
        Failure(
            "CheckpointInUse",
            f"another driver has kept {checkpoint} locked for {patience:.0f} s: an earlier pod of "
            "this stream that has not ended (look at the node it ran on), or a run by hand",
        )
    )
