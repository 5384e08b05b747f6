"""What is done again and again in a thread while something else runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


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
