"""Waits for a condition, with a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from testkit.errors import KubectlError, WaitTimeout

# Long enough for a busy machine, where Spark alone takes a minute to start (measured at a load of
# 20). No test concludes anything from the time that a wait took.
PATIENCE_SECONDS = 180.0

T = TypeVar("T")


def wait_for(
    what: str,
    look: Callable[[], T],
    seconds: float = PATIENCE_SECONDS,
    detail: Callable[[], str] = lambda: "",
    *,
    every: float = 0.05,
) -> T:
    """Calls `look` until it returns something true, and returns that.

    After `seconds` it raises WaitTimeout with `what` and the text of `detail`. A KubectlError in
    `look` counts as false, because a busy API server can be unreachable for a moment.
    """
    deadline = time.monotonic() + seconds
    while True:
        error = ""
        try:
            if result := look():
                return result
        except KubectlError as failure:
            error = str(failure)
        if time.monotonic() > deadline:
            raise WaitTimeout(_message(what, seconds, error, detail()))
        time.sleep(every)


async def wait_for_async(
    what: str, look: Callable[[], Awaitable[T]], seconds: float = PATIENCE_SECONDS
) -> T:
    """The same for an asynchronous `look`; its event loop stays free between two looks."""
    error = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if result := await look():
                        return result
                except KubectlError as failure:
                    error = str(failure)
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise WaitTimeout(_message(what, seconds, error)) from None


def _message(what: str, seconds: float, *details: str) -> str:
    return "\n".join([f"not within {seconds:.0f} s: {what}", *filter(None, details)])


@contextlib.contextmanager
def repeat_in_background(action: Callable[[], object], every: float) -> Iterator[None]:
    """Calls `action` in a thread during the block, with `every` seconds between two calls."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(every):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
