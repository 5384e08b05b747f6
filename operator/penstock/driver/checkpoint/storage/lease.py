"""Allows one driver at a time for checkpoints in an object store.

The holder of the lease renews it (connector/CheckpointLease), and ends itself if it could not for a
while. So one that was not seen renewed for longer is nobody's: its driver has ended, or will have
ended before another one writes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.contract import naming
from penstock.driver.checkpoint.storage.object_store import (
    ObjectStoreCheckpoints,
    StoreError,
    failure_of,
)
from penstock.driver.failures import OBJECT_STORE_UNSAFE, DriverError, Failure

# CheckpointLease.LIMIT, and 12 s until the executors of a driver that has gone have ended.
ABANDONED_SECONDS = 45.0
# One that is held was renewed within this time: CheckpointLease.RENEWAL, and a slow store.
_RENEWED_SECONDS = 15.0
# At least so long is another holder waited for, which may be about to stop.
_TIMEOUT_SECONDS = naming.GRACE_SECONDS + 10.0
_INTERVAL_SECONDS = 1.0
# Between two looks at a store that does not answer, or denies access.
_STORE_SECONDS = 5.0


@dataclass(frozen=True)
class StoredLease:
    """The lease as it is in the store."""

    etag: str
    holder: str
    released: bool


def may_take(lease: StoredLease | None, holder: str, unchanged_seconds: float) -> bool:
    """Whether a driver may take a lease that it has seen unchanged for so long.

    That of its own pod is an earlier process's, which has ended.

    >>> may_take(StoredLease("1", "pod-a", False), "pod-b", 44.0)
    False
    >>> may_take(StoredLease("1", "pod-a", False), "pod-b", 45.0)
    True
    >>> may_take(StoredLease("1", "pod-a", True), "pod-b", 0.0)
    True
    """
    if lease is None or lease.released or lease.holder == holder:
        return True
    return unchanged_seconds >= ABANDONED_SECONDS


class CheckpointLease:
    """The lease of one stream's checkpoints."""

    def __init__(
        self, checkpoints: ObjectStoreCheckpoints, check: Callable[[], None] = lambda: None
    ) -> None:
        """`check` raises DriverError if the image or the store's keys are not there."""
        self._checkpoints = checkpoints
        self._check = check
        self._location = checkpoints.location

    def acquire(
        self,
        stop: threading.Event,
        waits: Callable[[Failure], None],
        timeout: float = _TIMEOUT_SECONDS,
    ) -> bool:
        """Whether it was taken; False if `stop` was set before: nothing may write without it.

        `waits` gets what it waits for, at each look. Raises CheckpointInUse after `timeout` seconds
        of another driver's. What is wrong with the store is waited for as long as it lasts.
        """
        begun = since = time.monotonic()
        seen: str | None = None
        while not stop.is_set():
            now = time.monotonic()
            try:
                lease = self._look()
                if lease is not None and lease.etag != seen:
                    seen, since = lease.etag, now
                if may_take(lease, self._checkpoints.holder, now - since):
                    self._check_conditions()
                    if self._take(lease):
                        return True
                    stop.wait(_INTERVAL_SECONDS)
                    continue
            except (StoreError, DriverError) as error:
                begun = since = now  # what it does meanwhile is unknown
                waits(
                    error.failure
                    if isinstance(error, DriverError)
                    else failure_of(error, self._location)
                )
                stop.wait(_STORE_SECONDS)
                continue
            failure = _in_use(self._location, lease, now - begun)
            # One that may be abandoned is waited for until that is known.
            if now - begun >= timeout and now - since < _RENEWED_SECONDS:
                raise DriverError(failure)
            waits(failure)
            stop.wait(_INTERVAL_SECONDS)
        return False

    def release(self) -> None:
        """Lets another driver take it at once; raises StoreError."""
        self._checkpoints.on_lease("release")

    def _look(self) -> StoredLease | None:
        self._check()
        fields = self._checkpoints.on_lease("look")
        if fields is None:
            return None
        etag, holder, released = str(fields).split("\t")
        return StoredLease(etag, holder, released == "true")

    def _take(self, lease: StoredLease | None) -> bool:
        return bool(self._checkpoints.on_lease("take", None if lease is None else lease.etag))

    def _check_conditions(self) -> None:
        if not self._checkpoints.call("honoursConditions"):
            raise DriverError(
                Failure(
                    OBJECT_STORE_UNSAFE,
                    f"The object store at {self._location} writes a file that exists although the "
                    "request forbids it (If-None-Match, If-Match), so that two drivers could write "
                    "one checkpoint. Use a store, or a version of it, with conditional writes.",
                    permanent=True,
                    recoverable=True,
                )
            )


def _in_use(location: str, lease: StoredLease | None, seconds: float) -> Failure:
    holder = "" if lease is None else f" of pod {lease.holder}"
    return Failure(
        "CheckpointInUse",
        f"Another driver{holder} has held the lease on {location} for {seconds:.0f} s. It is an "
        "earlier pod of this stream that has not ended, a stream of the same name in another "
        "cluster with the same location, or a run by hand.",
    )
