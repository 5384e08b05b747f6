"""The work queue: one reconcile at a time for a key, many keys at once, and no event lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.kinds import Key
from penstock.controller import work_queue
from penstock.controller.work_queue import WorkQueue, retry_delay

# Each test ends when its last event has come; without that event it would never end.
pytestmark = pytest.mark.timeout(20)

A, B = Key("default", "a"), Key("default", "b")


async def test_many_events_of_one_stream_cause_one_reconcile() -> None:
    queue = WorkQueue()
    keys: list[Key] = []
    both = asyncio.Event()

    async def reconcile(key: Key) -> None:
        keys.append(key)
        if B in keys:
            both.set()

    async with queue.run(reconcile, 1):
        for _ in range(100):
            queue.add(A)
        queue.add(B)
        await both.wait()
    assert keys == [A, B]


async def test_an_event_during_a_reconcile_causes_another_one_and_never_two_at_once() -> None:
    queue = WorkQueue()
    started, go_on, twice = asyncio.Event(), asyncio.Event(), asyncio.Event()
    running, total = 0, 0

    async def reconcile(_: Key) -> None:
        nonlocal running, total
        running += 1
        total += 1
        assert running == 1
        started.set()
        await go_on.wait()
        running -= 1
        if total == 2:
            twice.set()

    async with queue.run(reconcile, 4):
        queue.add(A)
        await started.wait()
        queue.add(A)
        queue.add(A)
        go_on.set()
        await twice.wait()
    assert total == 2


async def test_a_slow_stream_delays_no_other() -> None:
    queue = WorkQueue()
    other = asyncio.Event()

    async def reconcile(key: Key) -> None:
        if key == A:
            await other.wait()
        else:
            other.set()

    async with queue.run(reconcile, 2):
        queue.add(A)
        queue.add(B)
        await other.wait()


async def test_a_failed_reconcile_is_retried_and_affects_no_other_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_queue, "_FIRST_RETRY_SECONDS", 0.01)
    queue = WorkQueue()
    keys: list[Key] = []
    succeeded = asyncio.Event()

    async def reconcile(key: Key) -> None:
        keys.append(key)
        if keys.count(A) < 3 and key == A:
            raise OSError("away")
        if keys.count(A) >= 3:
            succeeded.set()

    async with queue.run(reconcile, 1):
        queue.add(A)
        queue.add(B)
        await succeeded.wait()
    assert keys.count(A) == 3
    assert keys.count(B) == 1


async def test_a_reconcile_may_ask_for_a_requeue() -> None:
    queue = WorkQueue()
    total = 0
    enough = asyncio.Event()

    async def reconcile(_: Key) -> timedelta | None:
        nonlocal total
        total += 1
        if total == 3:
            enough.set()
            return None
        return timedelta(milliseconds=1)

    async with queue.run(reconcile, 1):
        queue.add(A)
        await enough.wait()


async def test_an_event_does_not_wait_for_a_later_requeue() -> None:
    queue = WorkQueue()
    total = 0
    first, second = asyncio.Event(), asyncio.Event()

    async def reconcile(_: Key) -> timedelta:
        nonlocal total
        total += 1
        (first if total == 1 else second).set()
        return timedelta(hours=1)

    async with queue.run(reconcile, 1):
        queue.add(A)
        await first.wait()
        queue.add(A)
        await second.wait()


async def test_the_queue_says_how_many_are_due_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also while they are reconciled: one that hangs must be seen."""
    queue = WorkQueue()
    clock = 100.0
    monkeypatch.setattr(work_queue, "time", SimpleNamespace(monotonic=lambda: clock))
    both, go_on, last = asyncio.Event(), asyncio.Event(), asyncio.Event()
    running: list[Key] = []

    async def reconcile(key: Key) -> None:
        running.append(key)
        if set(running) == {A, B}:
            both.set()
        await go_on.wait()
        last.set()

    assert (queue.depth, queue.age) == (0, 0.0)
    async with queue.run(reconcile, 2):
        queue.add(A)
        queue.add(B)
        await both.wait()
        clock += 70.0
        assert (queue.depth, queue.age) == (2, 70.0)
        go_on.set()
        await last.wait()
        while queue.depth:  # noqa: ASYNC110 - one turn of the event loop
            await asyncio.sleep(0)
        assert queue.age == 0.0


async def test_the_queue_knows_the_failures_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_FIRST_RETRY_SECONDS", 0.01)
    queue = WorkQueue()
    seen: list[dict[Key, int]] = []
    succeeded = asyncio.Event()

    async def reconcile(key: Key) -> None:
        seen.append(dict(queue.failures))
        if key == A and len(seen) < 3:
            raise OSError("away")
        (succeeded if key == B else asyncio.Event()).set()
        if key == A:
            queue.add(B)

    async with queue.run(reconcile, 1):
        queue.add(A)
        await succeeded.wait()
    assert seen == [{}, {A: 1}, {A: 2}, {}]


@given(st.integers(1, 1000))
def test_the_back_off_is_above_zero_and_at_most_a_minute(failures: int) -> None:
    assert 0 < retry_delay(failures) <= 60
