"""What an exception of a function shows, and when the function counts as working."""

from __future__ import annotations

import functools
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.contract.sizing import driver_memory
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import Failure
from penstock.driver.spark.batch_function import Batch, BatchFunction, FunctionFailedError
from testkit.streams.streams import MICRO_BATCH, spec, stream
from testkit.wait import wait_for


def made(function: Callable[..., Any]) -> BatchFunction:
    it = stream(sink={"python": {"function": "m:write"}}, trigger=MICRO_BATCH)
    return BatchFunction(function, it, LocalEnvironment(Path("c")), keeps_state=False)


def raised_by(function: Callable[..., Any]) -> Failure:
    """The failure after a call; what Spark is told has the same text, and keeps nothing."""
    it = made(function)
    with pytest.raises(FunctionFailedError) as told:
        it(MagicMock(), 7)
    assert it.failure is not None
    assert str(told.value) == it.failure.message
    assert told.value.__context__ is None
    return it.failure


class _DatabaseError(Exception):
    sqlstate = "23505"


class _LongStateError(Exception):
    pgcode = "a row"


class _SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("row 4711")


class _LoudError(Exception):
    @property
    def sqlstate(self) -> str:
        raise RuntimeError("row 4711")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("row 4711"), "m:write raised ValueError, in test_batch_function.py, line "),
        (_DatabaseError("row 4711"), "m:write raised _DatabaseError (SQLSTATE 23505), in test_"),
        (_LongStateError("row 4711"), "m:write raised _LongStateError, in test_batch"),
        (_SilentError(), "m:write raised an exception."),
        (_LoudError("row 4711"), "m:write raised an exception."),
        (KeyboardInterrupt(), "m:write raised KeyboardInterrupt, in "),
        (NameError("row 4711"), "m:write raised NameError, in "),
    ],
)
def test_an_exception_shows_its_class_and_place(error: BaseException, says: str) -> None:
    def write(rows: Any, batch: Batch) -> None:
        raise error

    failure = raised_by(write)
    assert failure.message.startswith(says)
    assert "4711" not in failure.message
    assert failure.reason == "PythonSinkFailed"
    # What is transient counts for restart.maxAttempts, and its pauses grow.
    assert failure.permanent == failure.recoverable == isinstance(error, NameError)


def test_the_place_is_that_of_the_function_itself() -> None:
    """Beside that of the library which raised it, and not that of a decorator or a partial."""

    def write(more: int, rows: Any, batch: Batch) -> None:
        int("x" * more)
        Path("/no/such/file").read_text()

    class Callable_:
        def __call__(self, rows: Any, batch: Batch) -> None:
            Path("/no/such/file").read_text()

    message = raised_by(functools.partial(write, 1)).message
    assert message.count("test_batch_function.py") == 1
    message = raised_by(Callable_()).message
    assert ", in test_batch_function.py, line " in message
    assert message.rpartition(", in ")[2].startswith("pathlib.py, line ")


BEGUN, ENDS = threading.Event(), threading.Event()


@contextmanager
def under_way(function: Callable[[], object]) -> Iterator[BatchFunction]:
    """A call of the function, in a thread."""
    it = made(lambda rows, batch: function())
    thread = threading.Thread(target=it, args=(MagicMock(), 0))
    thread.start()
    try:
        assert BEGUN.wait(60)
        yield it
    finally:
        ENDS.set()
        thread.join()
        ENDS.clear()
        BEGUN.clear()
    assert it.stands_at() is None


def waits() -> None:
    BEGUN.set()
    ENDS.wait()


def waits_in_slices() -> None:
    """In a library, which looks now and then, as many clients of servers do."""
    with subprocess.Popen(["sleep", "2"]) as child:
        BEGUN.set()
        child.wait(timeout=60)


def computes() -> None:
    BEGUN.set()  # then one call after the other, each for long, in C
    while not ENDS.is_set():
        sum(range(30_000_000))


def works_in_threads() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(works_slowly).result()


def works_slowly() -> None:
    BEGUN.set()
    while not ENDS.is_set():
        time.sleep(0.01)
        time.sleep(0.02)


def test_one_that_waits_takes_no_step() -> None:
    for waiting in (waits, waits_in_slices):
        with under_way(waiting) as it:
            before = it.steps()
            for _ in range(10):
                time.sleep(0.1)
                it.steps()
            assert it.steps() - before <= 1  # it was on its way to the call


@pytest.mark.parametrize("working", [computes, works_slowly, works_in_threads])
def test_one_that_works_takes_steps(working: Callable[[], object]) -> None:
    with under_way(working) as it:
        before = it.steps()
        wait_for("three steps", lambda: it.steps() - before > 2, 60)


def _yields(rows: Any, batch: Batch) -> Iterator[None]:
    yield


@pytest.mark.parametrize("function", [_yields, lambda rows, batch: _yields(rows, batch)])
def test_a_call_that_runs_nothing_writes_no_batch(function: Callable[..., Any]) -> None:
    failure = raised_by(function)
    assert failure.message.startswith("m:write must not be async or a generator")
    assert failure.permanent


def test_it_has_memory_beside_the_heap_wherever_the_tasks_run() -> None:
    """It runs in the driver in any case, with what it collects."""
    sink = {"python": {"function": "m:write"}}
    for mode in ("Pods", "Auto"):
        it = spec(sink=sink, trigger=MICRO_BATCH, executor={"mode": mode})
        memory = driver_memory(it)
        assert memory.overhead > memory.heap
        assert driver_memory(spec(executor={"mode": "Pods"})).overhead < memory.overhead
