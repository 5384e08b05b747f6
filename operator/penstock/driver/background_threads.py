"""What is done in a thread while something else runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def newest_in_background(work: Callable[[T], object], name: str) -> Callable[[T], None]:
    """Has a thread do `work` with each value that it is given, one after another.

    A value that comes while the work is under way replaces the one that waits for its end.
    """
    values: SimpleQueue[T] = SimpleQueue()

    def run() -> None:
        while True:
            value = values.get()
            with contextlib.suppress(Empty):
                while True:
                    value = values.get_nowait()
            work(value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return values.put


@contextlib.contextmanager
def repeat_in_background(
    action: Callable[[], object], every: float, name: str | None = None
) -> Iterator[None]:
    """Calls `action` in a thread during the block, `every` seconds after its last call ended.

    The end of the block waits for a call that is under way. An exception ends the calls.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every):
            action()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
