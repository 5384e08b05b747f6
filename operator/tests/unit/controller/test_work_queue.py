"""The work queue: one reconcile at a time for a key, many keys at once, and no event lost."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.kinds import Key
from penstock.contract.operator_settings import QueueLimits
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


@pytest.mark.proves(29)
@pytest.mark.parametrize("burst", [3, 5])
async def test_a_key_that_changes_all_the_time_is_reconciled_at_its_rate(burst: int) -> None:
    """Some at once, so that a rollout is not slowed, and then one in each period."""
    queue, times = WorkQueue(QueueLimits(stream_qps=5, stream_burst=burst)), list[float]()
    begun = time.monotonic()

    async def reconcile(_: Key) -> None:
        times.append(time.monotonic() - begun)

    async with queue.run(reconcile, 4):
        while time.monotonic() - begun < 2.5:
            queue.add(A)
            await asyncio.sleep(1 / 60)
    assert len(times) <= burst + 2.5 * 5 + 1
    assert len(times) >= burst
    assert times[burst - 1] < times[-1] / 2


@pytest.mark.proves(29)
async def test_namespaces_take_turns_and_edits_go_first() -> None:
    """One reconcile at once, and a tenant with forty keys before those of others."""
    queue, keys = WorkQueue(), list[str]()
    go_on, done = asyncio.Event(), asyncio.Event()

    async def reconcile(key: Key) -> None:
        await go_on.wait()
        keys.append(f"{key.namespace}/{key.name}")
        if len(keys) == 44:
            done.set()

    async with queue.run(reconcile, 1):
        for number in range(41):
            queue.add(Key("many", str(number)))
        await asyncio.sleep(0.2)  # the first runs
        queue.add(Key("one", "report"))
        queue.add(Key("two", "report"))
        queue.add(Key("many", "40"), edit=True)
        queue.add(Key("three", "edit"), edit=True)
        await asyncio.sleep(0.2)
        go_on.set()
        await done.wait()
    assert keys[0] == "many/0"
    assert set(keys[1:3]) == {"many/40", "three/edit"}
    assert {"one/report", "two/report"} < set(keys[3:6])


@pytest.mark.parametrize("share", [1, 8])
async def test_a_namespace_whose_reconciles_are_slow_has_only_its_share(share: int) -> None:
    limits = QueueLimits(max_concurrent_reconciles_per_namespace=share)
    queue, other = WorkQueue(limits), asyncio.Event()
    slow = 0

    async def reconcile(key: Key) -> None:
        nonlocal slow
        if key.namespace == "slow":
            slow += 1
            await other.wait()
        else:
            other.set()

    async with queue.run(reconcile, 64):
        for number in range(100):
            queue.add(Key("slow", str(number)))
        await asyncio.sleep(0.2)
        assert slow == share
        queue.add(A)
        await other.wait()


async def test_an_edit_ends_the_back_off_of_its_key() -> None:
    queue, edited = WorkQueue(), asyncio.Event()
    attempts = 0

    async def reconcile(_: Key) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            error = OSError("away")
            error.retry_after = 300.0  # type: ignore[attr-defined]
            raise error
        edited.set()

    async with queue.run(reconcile, 1):
        queue.add(A)
        while not queue.failures:  # noqa: ASYNC110 - one turn of the event loop
            await asyncio.sleep(0.01)
        queue.add(A)
        await asyncio.sleep(0.2)
        assert attempts == 1
        queue.add(A, edit=True)
        await edited.wait()


async def test_a_takeover_is_no_burst_and_an_edit_does_not_wait_for_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_queue, "_SPREAD_SECONDS", 3600.0)
    monkeypatch.setattr(work_queue, "_SPREAD_A_SECOND", 1)
    queue, keys, edited = WorkQueue(), list[Key](), asyncio.Event()

    async def reconcile(key: Key) -> None:
        keys.append(key)
        if key == A:
            edited.set()

    async with queue.run(reconcile, 64):
        queue.spread([A, *(Key("default", str(number)) for number in range(3000))])
        queue.add(A, edit=True)
        await edited.wait()
        assert len(keys) < 30
        for timer in queue._timers.values():
            timer.cancel()


@pytest.mark.parametrize("at_once", [1, 500, 3000])
async def test_keys_that_come_one_after_another_are_spread_like_all_at_once(at_once: int) -> None:
    """kopf tells of each stream of its list singly."""
    queue, keys = WorkQueue(), [Key("default", str(number)) for number in range(3000)]
    now = asyncio.get_running_loop().time()
    for first in range(0, len(keys), at_once):
        queue.spread(keys[first : first + at_once])
    due = sorted(timer.when() - now for timer in queue._timers.values())
    assert len(due) == 3000
    assert due[-1] < 65
    for second in range(60):
        assert sum(second <= each < second + 1 for each in due) < 100
    for timer in queue._timers.values():
        timer.cancel()


async def test_any_number_of_keys_is_spread_over_a_minute() -> None:
    queue = WorkQueue()
    now = asyncio.get_running_loop().time()
    for number in range(9000):
        queue.spread([Key("default", str(number))])
    due = [timer.when() - now for timer in queue._timers.values()]
    assert max(due) < 65
    for second in range(60):
        assert sum(second <= each < second + 1 for each in due) < 300
    for timer in queue._timers.values():
        timer.cancel()


async def test_a_key_that_is_spread_while_it_is_processed_is_processed_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one that fails keeps its back-off."""
    monkeypatch.setattr(work_queue, "_FIRST_RETRY_SECONDS", 30.0)
    queue, again, keys = WorkQueue(), asyncio.Event(), list[Key]()

    async def reconcile(key: Key) -> None:
        keys.append(key)
        if key == B:
            raise OSError("away")
        if keys.count(A) == 2:
            again.set()
        else:
            queue.spread([A, B])

    async with queue.run(reconcile, 1):
        queue.add(B)
        while not queue.failures:  # noqa: ASYNC110 - one turn of the event loop
            await asyncio.sleep(0.01)
        due = queue._timers[B].when()
        queue.add(A)
        await again.wait()
        assert queue._timers[B].when() == due
        queue._timers[B].cancel()


@given(st.floats(1, 1000))
def test_only_what_guards_against_a_missed_event_is_spread_widely(seconds: float) -> None:
    jittered = work_queue._jittered(seconds)
    least, most = (0.5, 1.5) if seconds >= 60 else (1, 1.1)
    assert least * seconds <= jittered <= most * seconds


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
