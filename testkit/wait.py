"""Waiting for something to become true, with an end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

PATIENCE = 90.0


def wait_for(what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Returns when it holds; says what it waited for when it does not."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def over_and_over(what: Callable[[], object], every: float) -> Iterator[None]:
    """Does it beside the block, with so many seconds between."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(every):
            what()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
