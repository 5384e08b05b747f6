"""A work queue: each key is queued at most once, and processed by one task at a time."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from penstock.cluster.kinds import Key
from penstock.contract.operator_settings import QueueLimits

log = logging.getLogger(__name__)

# One change of a stream causes several events. A key waits this long to collect them.
_DEBOUNCE_SECONDS = 0.05
_DEFAULT_LIMITS = QueueLimits()
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 30.0
_MANY_KEYS = 10_000
# All streams of a takeover or a list are looked at: so many in a second, and all within a minute.
_SPREAD_A_SECOND = 50
_SPREAD_SECONDS = 60.0
# A longer requeue only guards against a missed event, and is spread. A shorter one is exact.
_RESYNC_SECONDS = 60.0

# Reconciles a key once, and returns when to requeue it.
Reconcile = Callable[[Key], Awaitable[timedelta | None]]


class WorkQueue:
    """Keys to process, now or later. Call all methods from the event loop's thread.

    Edits go before everything else. Namespaces take turns, and one that has many keys, or slow
    ones, has only its share of those that run at once.
    """

    def __init__(self, limits: QueueLimits = _DEFAULT_LIMITS) -> None:
        self._share = limits.max_concurrent_reconciles_per_namespace
        self._edits, self._others = _Lane(), _Lane()
        self._queued: dict[Key, _Lane] = {}
        self._edited: set[Key] = set()
        """The keys with an edit that is not processed yet."""
        self._processing: set[Key] = set()
        self._running: Counter[str] = Counter()
        """How many are processed, by namespace."""
        self._wake = asyncio.Event()
        self._dirty: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._due: dict[Key, float] = {}
        """When each key that is queued or processed became due, on the monotonic clock."""
        self._rate, self._rate_of_edits = _Rate(limits), _Rate(limits)
        self._spread_until = 0.0
        """When the last of the keys that were spread is due, on the monotonic clock."""

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

    def add(self, key: Key, *, edit: bool = False) -> None:
        """Queues a key. If it is processed now, it is processed once more afterwards.

        A key that failed keeps its back-off: its own writes, and those of others that may have
        caused the failure, are events too. An `edit` of the stream ends it.
        """
        if edit:
            self._edited.add(key)
        if key in self._processing:
            self._dirty.add(key)
        elif key in self._queued:
            if edit:
                self._queued[key].remove(key)
                self._put(key)
        elif edit or key not in self._failures:
            self._schedule(key, self._until_allowed(key))

    def spread(self, keys: Sequence[Key]) -> None:
        """Queues keys, each at another time, so that many are no burst, at once or one by one."""
        now = time.monotonic()
        first = max(0.0, self._spread_until - now)
        last = first + len(keys) / _SPREAD_A_SECOND
        if last > _SPREAD_SECONDS:
            first, last = 0.0, _SPREAD_SECONDS
        self._spread_until = now + last
        for key in keys:
            if key in self._processing:
                self._dirty.add(key)
            elif key not in self._queued and key not in self._failures:
                self._schedule(key, random.uniform(first, last))  # noqa: S311 - spreads load

    @asynccontextmanager
    async def run(self, reconcile: Reconcile, limit: int) -> AsyncIterator[None]:
        """Processes up to `limit` keys at once until the block ends.

        A key that fails delays only itself.
        """
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._run(reconcile, limit))
            try:
                yield
            finally:
                task.cancel()

    async def _run(self, reconcile: Reconcile, limit: int) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                while len(self._processing) < limit and (key := self._take()) is not None:
                    group.create_task(self._process(reconcile, key))
                await self._wake.wait()

    def _take(self) -> Key | None:
        """The next key, which is processed from now on."""

        def has_room(namespace: str) -> bool:
            return self._running[namespace] < self._share

        key, rate = self._edits.take(has_room), self._rate_of_edits
        if key is None:
            key, rate = self._others.take(has_room), self._rate
        if key is not None:
            del self._queued[key]
            self._edited.discard(key)
            self._processing.add(key)
            self._running[key.namespace] += 1
            rate.pay(key, time.monotonic())
        return key

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
            self._running[key.namespace] -= 1
            if not self._running[key.namespace]:
                del self._running[key.namespace]
            self._due.pop(key, None)
            dirty = key in self._dirty
            self._dirty.discard(key)
            self._wake.set()
        if dirty and (key in self._edited or key not in self._failures):
            seconds = self._until_allowed(key)
        if seconds is not None:
            self._schedule(key, seconds)

    def _until_allowed(self, key: Key) -> float:
        """In how many seconds an event that comes now may be processed."""
        rate = self._rate_of_edits if key in self._edited else self._rate
        return max(_DEBOUNCE_SECONDS, rate.wait(key, time.monotonic()))

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
        self._due[key] = time.monotonic()
        self._put(key)
        self._wake.set()

    def _put(self, key: Key) -> None:
        lane = self._queued[key] = self._edits if key in self._edited else self._others
        lane.put(key)


class _Lane:
    """Keys that are due. Namespaces take turns, and the keys of one come in order."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, deque[Key]] = OrderedDict()

    def put(self, key: Key) -> None:
        self._turns.setdefault(key.namespace, deque()).append(key)

    def remove(self, key: Key) -> None:
        keys = self._turns[key.namespace]
        keys.remove(key)
        if not keys:
            del self._turns[key.namespace]

    def take(self, has_room: Callable[[str], bool]) -> Key | None:
        """The next key, of a namespace that has room for one; None if there is none."""
        namespace = next(filter(has_room, self._turns), None)
        if namespace is None:
            return None
        keys = self._turns.pop(namespace)
        key = keys.popleft()
        if keys:
            self._turns[namespace] = keys
        return key


class _Rate:
    """How soon an event of a key is processed: some at once, and then one in each period."""

    def __init__(self, limits: QueueLimits) -> None:
        self._period = 1 / limits.stream_qps
        self._at_once = (limits.stream_burst - 1) * self._period
        self._paid: dict[Key, float] = {}
        """Until when a key has used its rate up, on the monotonic clock."""

    def wait(self, key: Key, now: float) -> float:
        """Seconds until an event that comes now may be processed."""
        return max(0.0, self._paid.get(key, now) - now - self._at_once)

    def pay(self, key: Key, now: float) -> None:
        """Notes that a key is processed now."""
        if len(self._paid) > _MANY_KEYS:
            self._paid = {paid: until for paid, until in self._paid.items() if until > now}
        self._paid[key] = max(self._paid.get(key, now), now) + self._period


def _jittered(seconds: float) -> float:
    """Up to a tenth later; a long time, up to a half sooner or later.

    So streams that settled together are not due together.
    """
    if seconds < _RESYNC_SECONDS:
        return seconds * random.uniform(1, 1.1)  # noqa: S311 - spreads load, keeps no secret
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311


def retry_delay(failures: int) -> float:
    """Seconds of back-off: exponential, with jitter and a maximum."""
    cap = min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 20))
    return random.uniform(cap / 4, cap)  # noqa: S311 - spreads load, keeps no secret
