"""A small work queue: each key at most once in the queue, and at most once in hand."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from penstock.controller.objects import Key

log = logging.getLogger(__name__)

# One change of a stream comes as several events; this is how long to wait for the others.
_DEBOUNCE_SECONDS = 0.05
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 60.0

# Does one reconcile; the result is when to look at the key again.
Work = Callable[[Key], Awaitable[timedelta | None]]


class Queue:
    """Keys to look at, now or later. All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._in_hand: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Looks at a key soon; while it is in hand, once more when that is done."""
        if key in self._in_hand:
            self._again.add(key)
        elif key not in self._queued:
            self._later(key, _DEBOUNCE_SECONDS)

    @asynccontextmanager
    async def working(self, work: Work, workers: int) -> AsyncIterator[None]:
        """Works beside the block, and ends with it. One bad key delays itself and no other."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._serve(work)) for _ in range(workers)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _serve(self, work: Work) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._in_hand.add(key)
            try:
                again = await self._one(work, key)
            finally:
                self._in_hand.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._later(key, _DEBOUNCE_SECONDS)
            elif again is not None:
                self._later(key, again)

    async def _one(self, work: Work, key: Key) -> float | None:
        """One turn of the work; the result is the seconds until the next look."""
        try:
            again = await work(key)
        except Exception as error:
            count = self._failures[key] = self._failures.get(key, 0) + 1
            delay = retry_delay(count)
            # What is expected to go wrong is told in one line; anything else is a bug to be found.
            expected = getattr(error, "expected", False)
            log.warning("%s: %s; trying again in %.1f s", key, error, delay, exc_info=not expected)
            return delay
        self._failures.pop(key, None)
        return None if again is None else again.total_seconds()

    def _later(self, key: Key, seconds: float) -> None:
        """Sets the key's one timer, unless it is set to an earlier time."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: Key) -> None:
        del self._timers[key]
        if key in self._in_hand:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)


def retry_delay(failures: int) -> float:
    """Exponential with full jitter and a cap."""
    cap = min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 20))
    return random.uniform(cap / 4, cap)  # noqa: S311 - spreads load, keeps no secret
