"""A frozen JVM and a blocked loop are noticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.driver.failures import Failure
from penstock.driver.hang_guard import HangGuard
from penstock.driver.reporting.http_server import Health

QUICK = HangGuard(0.001, 0.001, frozen_after=0.01, overloaded_after=0.5)


def idle() -> float:
    return 7.0


def found(
    health: Health, answers: Callable[[float], bool], cpu_seconds: Callable[[], float] = idle
) -> Failure:
    """What the guard finds."""
    failures: list[Failure] = []
    hangs = threading.Event()

    def on_hang(failure: Failure) -> None:
        failures.append(failure)
        hangs.set()

    stopped = QUICK.watch(health, answers, cpu_seconds, on_hang)
    assert hangs.wait(30)
    stopped.set()
    return failures[0]


def test_a_jvm_without_an_answer_is_not_ready_and_then_hung() -> None:
    health = Health(ready=True)
    assert "does nothing" in found(health, lambda timeout: False).message
    assert not health.is_ready()


def test_a_jvm_that_works_gets_more_time_than_one_that_does_nothing() -> None:
    began = time.monotonic()
    health = Health(ready=True)
    message = found(health, lambda timeout: False, cpu_seconds=time.monotonic).message
    assert time.monotonic() - began > QUICK.overloaded_after
    assert "of processor time" in message
    assert not health.is_ready()


def test_a_blocked_loop_is_hung_although_the_jvm_answers() -> None:
    health = Health(last_iteration_at=time.monotonic() - 1000, step="stop_query")
    message = found(health, lambda timeout: True).message
    assert "took longer than 60 s for one step (stop_query). The JVM answered 0 s ago" in message


def test_a_short_silence_is_none() -> None:
    """A pause of the garbage collector. The driver is ready again afterwards."""
    health, answers = Health(ready=True), iter([False, True])
    asked = threading.Event()

    def answer(timeout: float) -> bool:
        found = next(answers, True)
        if found:
            asked.set()
        return found

    hangs: list[Failure] = []
    stopped = HangGuard(0.001, 0.001, 1000.0, 1000.0).watch(health, answer, idle, hangs.append)
    assert asked.wait(30)
    stopped.set()
    assert hangs == []
