"""Executors that were killed for their memory are reported once, with what to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.driver.spark.executors import MemoryKills

KILLED = """
The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM).

The API gave the following container statuses:

\t container name: executor
\t container state: terminated
\t exit code: 137
\t termination reason: OOMKilled
"""
# -XX:+ExitOnOutOfMemoryError.
OUT_OF_HEAP = """
The executor with id 2 exited with exit code 3(unexpected).

\t container name: executor
\t container state: terminated
\t exit code: 3
\t termination reason: Error
"""


def _context(start: int, *reasons: str | None) -> Any:
    """A SparkContext whose executors 1, 2, ... were removed for these reasons; None: active."""

    def summary(number: int, reason: str | None) -> SimpleNamespace:
        option = SimpleNamespace(isEmpty=lambda: reason is None, get=lambda: reason)
        return SimpleNamespace(
            id=lambda: str(number), isActive=lambda: reason is None, removeReason=lambda: option
        )

    found = [summary(number, reason) for number, reason in enumerate(reasons, 1)]
    executors = SimpleNamespace(length=lambda: len(found), apply=found.__getitem__)
    store = SimpleNamespace(executorList=lambda active_only: executors)
    java = SimpleNamespace(startTime=lambda: start, statusStore=lambda: store)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java))


def test_a_killed_executor_is_reported_once() -> None:
    kills, context = MemoryKills(), _context(1, None, KILLED)
    failure = kills.new(context)
    assert failure is not None
    assert failure.reason == "ExecutorOutOfMemory"
    assert failure.message.startswith("The executor 2 used more memory")
    assert kills.new(context) is None


def test_an_executor_without_heap_is_reported_once() -> None:
    kills, context = MemoryKills(), _context(1, None, OUT_OF_HEAP)
    failure = kills.new(context)
    assert failure is not None
    assert failure.reason == "ExecutorOutOfMemory"
    assert failure.message.startswith("The executor 2 ran out of heap. Raise ")
    assert kills.new(context) is None


def test_an_executor_of_a_new_session_is_another_one() -> None:
    kills = MemoryKills()
    assert kills.new(_context(1, None, KILLED))
    assert kills.new(_context(2, None, KILLED))


def test_an_executor_that_was_lost_for_another_reason_is_none() -> None:
    kills = MemoryKills()
    assert kills.new(_context(1, "Executor heartbeat timed out after 12000 ms")) is None
