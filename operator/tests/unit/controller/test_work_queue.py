"""The queue: one at a time for a key, many keys at once, and nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.controller import work_queue
from penstock.controller.objects import Key
from penstock.controller.work_queue import Queue, retry_delay

A, B = Key("default", "a"), Key("default", "b")


def run(scenario: Callable[[Queue], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario(Queue())

    asyncio.run(bounded())


def test_many_events_of_one_stream_are_one_look() -> None:
    async def scenario(queue: Queue) -> None:
        looks: list[Key] = []
        both = asyncio.Event()

        async def look(key: Key) -> None:
            looks.append(key)
            if B in looks:
                both.set()

        async with queue.working(look, 1):
            for _ in range(100):
                queue.add(A)
            queue.add(B)
            await both.wait()
        assert looks == [A, B]

    run(scenario)


def test_an_event_during_a_look_is_followed_by_another_look_and_never_by_two_at_once() -> None:
    async def scenario(queue: Queue) -> None:
        begun, go_on, twice = asyncio.Event(), asyncio.Event(), asyncio.Event()
        in_hand, looks = 0, 0

        async def look(_: Key) -> None:
            nonlocal in_hand, looks
            in_hand += 1
            looks += 1
            assert in_hand == 1
            begun.set()
            await go_on.wait()
            in_hand -= 1
            if looks == 2:
                twice.set()

        async with queue.working(look, 4):
            queue.add(A)
            await begun.wait()
            queue.add(A)
            queue.add(A)
            go_on.set()
            await twice.wait()
        assert looks == 2

    run(scenario)


def test_a_slow_stream_holds_up_no_other() -> None:
    async def scenario(queue: Queue) -> None:
        other = asyncio.Event()

        async def look(key: Key) -> None:
            if key == A:
                await other.wait()
            else:
                other.set()

        async with queue.working(look, 2):
            queue.add(A)
            queue.add(B)
            await other.wait()

    run(scenario)


def test_a_failed_look_is_tried_again_and_hurts_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_queue, "_FIRST_RETRY_SECONDS", 0.01)

    async def scenario(queue: Queue) -> None:
        looks: list[Key] = []
        good = asyncio.Event()

        async def look(key: Key) -> None:
            looks.append(key)
            if looks.count(A) < 3 and key == A:
                raise OSError("away")
            if looks.count(A) >= 3:
                good.set()

        async with queue.working(look, 1):
            queue.add(A)
            queue.add(B)
            await good.wait()
        assert looks.count(A) == 3
        assert looks.count(B) == 1

    run(scenario)


def test_a_look_may_ask_for_the_next_one() -> None:
    async def scenario(queue: Queue) -> None:
        looks = 0
        enough = asyncio.Event()

        async def look(_: Key) -> timedelta | None:
            nonlocal looks
            looks += 1
            if looks == 3:
                enough.set()
                return None
            return timedelta(milliseconds=1)

        async with queue.working(look, 1):
            queue.add(A)
            await enough.wait()

    run(scenario)


def test_an_event_does_not_wait_for_a_later_timed_look() -> None:
    async def scenario(queue: Queue) -> None:
        looks = 0
        first, second = asyncio.Event(), asyncio.Event()

        async def look(_: Key) -> timedelta:
            nonlocal looks
            looks += 1
            (first if looks == 1 else second).set()
            return timedelta(hours=1)

        async with queue.working(look, 1):
            queue.add(A)
            await first.wait()
            queue.add(A)
            await second.wait()

    run(scenario)


@given(st.integers(1, 1000))
def test_back_off_grows_to_a_cap_and_is_never_nothing(failures: int) -> None:
    assert 0 < retry_delay(failures) <= 60
