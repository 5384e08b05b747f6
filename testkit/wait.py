"""Waits for a condition, with a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from testkit.errors import KubectlError, WaitTimeout

# Long enough for a busy machine, where Spark alone takes a minute to start (measured at a load of
# 20). No test concludes anything from the time that a wait took.
PATIENCE_SECONDS = 180.0

# A look costs processor time (kubectl's takes 0.07 s of it), which what is waited for needs as
# well: so at most a fifth of a wait goes into looks, and a pause is never longer than a second.
_PAUSES_PER_LOOK = 4
_LONGEST_PAUSE_SECONDS = 1.0

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

    The pauses are `every` seconds, and longer where a look takes long. After `seconds` it raises
    WaitTimeout with `what` and the text of `detail`. A KubectlError in `look` counts as false,
    because a busy API server can be unreachable for a moment.
    """
    deadline = time.monotonic() + seconds
    while True:
        error = ""
        began = time.monotonic()
        try:
            if result := look():
                return result
        except KubectlError as failure:
            error = str(failure)
        if time.monotonic() > deadline:
            raise WaitTimeout(_message(what, seconds, error, detail()))
        time.sleep(_pause(every, time.monotonic() - began))


async def wait_for_async(
    what: str, look: Callable[[], Awaitable[T]], seconds: float = PATIENCE_SECONDS
) -> T:
    """The same for an asynchronous `look`; its event loop stays free between two looks."""
    error = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                began = time.monotonic()
                try:
                    if result := await look():
                        return result
                except KubectlError as failure:
                    error = str(failure)
                await asyncio.sleep(_pause(0.05, time.monotonic() - began))
    except TimeoutError:
        raise WaitTimeout(_message(what, seconds, error)) from None


def _pause(every: float, took: float) -> float:
    return max(every, min(_PAUSES_PER_LOOK * took, _LONGEST_PAUSE_SECONDS))


def _message(what: str, seconds: float, *details: str) -> str:
    return "\n".join([f"not within {seconds:.0f} s: {what}", *filter(None, details)])
