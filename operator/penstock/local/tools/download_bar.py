"""Shows on stderr how much of a download has arrived, from the size of the folder it goes to."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_MEBIBYTE = 2**20
_WIDTH = 30
_SECONDS = 0.5


@contextlib.contextmanager
def download_bar(folder: Path, mebibytes: int, stream: TextIO | None = None) -> Iterator[None]:
    """Draws a bar during the block, if stderr is a terminal; `mebibytes` is about the total."""
    out = stream or sys.stderr
    if not out.isatty():
        yield
        return
    stop = threading.Event()

    def draw() -> None:
        while not stop.wait(_SECONDS):
            out.write(f"\r{bar(_size(folder), mebibytes)}")
            out.flush()
        out.write("\r\x1b[K")

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def bar(size: int, mebibytes: int) -> str:
    """The bar for this many bytes, full a little early or late: the total is rounded. Pure."""
    share = min(1.0, size / (mebibytes * _MEBIBYTE))
    done = round(share * _WIDTH)
    return f"  {'━' * done}{'╺' * (_WIDTH - done)} {size / _MEBIBYTE:.0f} of {mebibytes} MB"


def _size(folder: Path) -> int:
    """What is in the folder; files may come and go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
