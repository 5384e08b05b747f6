"""A work queue: each key is queued at most once, and processed by one task at a time."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from penstock.cluster.kinds import Key

log = logging.getLogger(__name__)

# One change of a stream causes several events. A key waits this long to collect them.
_DEBOUNCE_SECONDS = 0.05
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 30.0

# Reconciles a key once, and returns when to requeue it.
Reconcile = Callable[[Key], Awaitable[timedelta | None]]


class WorkQueue:
    """Keys to process, now or later. Call all methods from the event loop's thread.

    Each key that is due gets a task of its own, so a slow one delays no other, however many are
    slow. `limit` bounds only how many are processed at once: far more than are ever slow.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._processing: set[Key] = set()
        self._dirty: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._due: dict[Key, float] = {}
        """When each key that is queued or processed became due, on the monotonic clock."""

    @property
    def depth(self) -> int:
        """Keys that are due, and whose reconcile has not ended. From any thread."""
        return len(self._due)

    @property
    def age(self) -> float:
        """For how many seconds the first of them has been due; 0 without one. From any thread."""
        due = min(self._due.copy().values(), default=None)
        return 0.0 if due is None else time.monotonic() - due

    @property
    def failures(self) -> Mapping[Key, int]:
        """Failed reconciles in a row, of the keys that have any. From any thread."""
        return self._failures.copy()

    def add(self, key: Key) -> None:
        """Queues a key. If it is processed now, it is processed once more afterwards.

        A key that failed keeps its back-off: its own writes, and those of others that may have
        caused the failure, are events too.
        """
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._queued and key not in self._failures:
            self._schedule(key, _DEBOUNCE_SECONDS)

    @asynccontextmanager
    async def run(self, reconcile: Reconcile, limit: int) -> AsyncIterator[None]:
        """Processes keys until the block ends. A key that fails delays only itself."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._run(reconcile, limit))
            try:
                yield
            finally:
                task.cancel()

    async def _run(self, reconcile: Reconcile, limit: int) -> None:
        slots = asyncio.Semaphore(limit)
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                key = await self._ready.get()
                self._queued.discard(key)
                self._processing.add(key)
                task = group.create_task(self._process(reconcile, key))
                task.add_done_callback(lambda _: slots.release())

    async def _process(self, reconcile: Reconcile, key: Key) -> None:
        """Processes a key once, and schedules when it is due again."""
        try:
            requeue_after = await reconcile(key)
            self._failures.pop(key, None)
            seconds = None if requeue_after is None else _jittered(requeue_after.total_seconds())
        except Exception as error:
            count = self._failures[key] = self._failures.get(key, 0) + 1
            seconds = max(retry_delay(count), getattr(error, "retry_after", None) or 0.0)
            # An expected error gets one line. Any other is a bug and gets its traceback.
            expected = getattr(error, "expected", False)
            log.warning("%s: %s; retrying in %.1f s", key, error, seconds, exc_info=not expected)
        finally:
            self._processing.discard(key)
            self._due.pop(key, None)
            dirty = key in self._dirty
            self._dirty.discard(key)
        if dirty and key not in self._failures:
            seconds = _DEBOUNCE_SECONDS
        if seconds is not None:
            self._schedule(key, seconds)

    def _schedule(self, key: Key, seconds: float) -> None:
        """Sets the key's only timer, unless it is already set to an earlier time."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._enqueue, key)

    def _enqueue(self, key: Key) -> None:
        del self._timers[key]
        self._queued.add(key)
        self._due[key] = time.monotonic()
        self._ready.put_nowait(key)


def _jittered(seconds: float) -> float:
    """Up to a tenth later, so that streams that settled together are not due together."""
    return seconds * random.uniform(1, 1.1)  # noqa: S311 - spreads load, keeps no secret


def retry_delay(failures: int) -> float:
    """Seconds of back-off: exponential, with jitter and a maximum."""
    cap = min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 20))
    return random.uniform(cap / 4, cap)  # noqa: S311 - spreads load, keeps no secret
