"""A work queue: each key is queued at most once, and processed by at most one worker."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from penstock.controller.objects import Key

log = logging.getLogger(__name__)

# One change of a stream causes several events. A key waits this long to collect them.
_DEBOUNCE_SECONDS = 0.05
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 60.0

# Reconciles a key once, and returns when to requeue it.
Reconcile = Callable[[Key], Awaitable[timedelta | None]]


class WorkQueue:
    """Keys to process, now or later. Call all methods from the event loop's thread."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._processing: set[Key] = set()
        self._dirty: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Queues a key. If a worker processes it, it is processed once more afterwards."""
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._queued:
            self._schedule(key, _DEBOUNCE_SECONDS)

    @asynccontextmanager
    async def run_workers(self, reconcile: Reconcile, workers: int) -> AsyncIterator[None]:
        """Runs workers until the block ends. A key that fails delays only itself."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run_worker(reconcile)) for _ in range(workers)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _run_worker(self, reconcile: Reconcile) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._processing.add(key)
            try:
                requeue_seconds = await self._process(reconcile, key)
            finally:
                self._processing.discard(key)
            if key in self._dirty:
                self._dirty.discard(key)
                self._schedule(key, _DEBOUNCE_SECONDS)
            elif requeue_seconds is not None:
                self._schedule(key, requeue_seconds)

    async def _process(self, reconcile: Reconcile, key: Key) -> float | None:
        """Processes a key once, and returns the seconds until it is due again."""
        try:
            requeue_after = await reconcile(key)
        except Exception as error:
            count = self._failures[key] = self._failures.get(key, 0) + 1
            delay = retry_delay(count)
            # An expected error gets one line. Any other is a bug and gets its traceback.
            expected = getattr(error, "expected", False)
            log.warning("%s: %s; retrying in %.1f s", key, error, delay, exc_info=not expected)
            return delay
        self._failures.pop(key, None)
        return None if requeue_after is None else requeue_after.total_seconds()

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
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)


def retry_delay(failures: int) -> float:
    """Seconds of back-off: exponential, with jitter and a maximum."""
    cap = min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 20))
    return random.uniform(cap / 4, cap)  # noqa: S311 - spreads load, keeps no secret
