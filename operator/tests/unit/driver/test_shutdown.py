"""What a signal does, without a process that it would end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from penstock.contract import naming
from penstock.driver import loop, shutdown
from penstock.driver.checkpoint.storage import lock
from penstock.driver.jvm import Jvm
from penstock.driver.shutdown import Shutdown


class Process:
    """A JVM that notes that it was killed."""

    def __init__(self) -> None:
        self.killed = threading.Event()

    def kill(self) -> None:
        self.killed.set()


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_signal_is_safe_at_any_moment() -> None:
    """The main thread may hold the lock of the event that it waits for."""
    stop = threading.Event()
    it = Shutdown(stop, cast(Jvm, Process()))
    with stop._cond:  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.wait(30)
    it.close()


def test_a_step_before_a_query_runs_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start of Spark takes minutes where the API server is away, and there is nothing to lose."""
    monkeypatch.setattr(shutdown, "_STEP_SECONDS", 0.01)
    stop, process = threading.Event(), Process()
    it = Shutdown(stop, cast(Jvm, process))
    os.kill(os.getpid(), signal.SIGTERM)
    assert process.killed.wait(30)
    assert it.ended_at_once
    it.close()


def test_a_running_query_is_given_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "_STEP_SECONDS", 0.01)
    stop, process = threading.Event(), Process()
    it = Shutdown(stop, cast(Jvm, process))
    asked = threading.Event()

    def may_end_at_once() -> bool:
        asked.set()
        return False

    it.may_end_at_once = may_end_at_once
    os.kill(os.getpid(), signal.SIGTERM)
    assert asked.wait(30)
    it.close()
    assert not it.ended_at_once
    assert not process.killed.is_set()


def test_a_stop_may_take_as_long_as_its_steps_and_ends_within_the_grace_period() -> None:
    """A commit, the sampler, the query's stop timeout, the end of its tasks, and Spark itself."""
    steps = loop._MAX_COMMIT_WAIT_SECONDS + loop._COMMIT_SECONDS + 2.0 + 20.0 + 8.0
    assert steps < shutdown._STOP_SECONDS < naming.GRACE_SECONDS < lock._TIMEOUT_SECONDS
