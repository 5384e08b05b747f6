"""The live view in a terminal: drawn on stderr, with the log in a file and records above it.

The JVM writes to the log too, so the streams are redirected by file descriptor: 2 becomes the log
file, and 1, if it is the same terminal, a pipe whose lines are printed above the view.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.contract.driver_report import QueryState
from penstock.driver import logs
from penstock.local.view.progress import STOPPED, Progress, RunInfo, state_of, view_rows

_STYLES: dict[str, str] = {
    QueryState.RUNNING: "bold green",
    QueryState.COMPLETED: "bold green",
    QueryState.FAILED: "bold red",
    QueryState.RESTARTING: "bold red",
    STOPPED: "bold",
}
_FRAMES_PER_SECOND = 4
# Python's names of the levels, and log4j's.
_LEVELS = {"WARNING", "ERROR", "CRITICAL", "WARN", "FATAL"}


class _Console(Console):
    """A console that never hides the cursor, so there is nothing to restore after a kill."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


def render(progress: Progress, info: RunInfo, monotonic: float, clock: datetime) -> Group:
    state = state_of(progress)
    head = Text.assemble(
        (info.name, "bold"), "  ", (str(state), _STYLES.get(state, "bold yellow")), "  ",
        (info.trigger, "dim"),
    )  # fmt: skip
    table = Table.grid(padding=(0, 2))
    for label, value in view_rows(progress, info, monotonic, clock):
        table.add_row(Text(f"  {label}", "dim"), Text(value))
    return Group(head, table)


class LiveView:
    """Redraws the view four times a second while open; the last frame stays on the terminal."""

    def __init__(self, log: Path, info: Callable[[str], RunInfo]) -> None:
        self._log = log
        self._info = info
        self._tail = LogTail(log)
        self._progress = Progress()

    @property
    def last_warning(self) -> str:
        return self._tail.read_new()

    def update(self, progress: Progress) -> None:
        self._progress = progress

    @contextlib.contextmanager
    def open(self) -> Iterator[LiveView]:
        """Draws until the block ends, and redirects stdout and stderr meanwhile."""
        with contextlib.ExitStack() as undo:
            terminal = undo.enter_context(os.fdopen(os.dup(2), "w", buffering=1))
            console = _Console(file=terminal, force_terminal=True)
            undo.enter_context(_redirect_to_file(2, self._log))
            logs.set_up()
            live = Live(
                console=console,
                get_renderable=self._render,
                refresh_per_second=_FRAMES_PER_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            undo.enter_context(live)
            if os.isatty(1):
                undo.enter_context(_print_stdout_above(console))
            yield self

    def _render(self) -> Group:
        info = self._info(self._tail.read_new())
        return render(self._progress, info, time.monotonic(), datetime.now(UTC))


@contextlib.contextmanager
def _redirect_to_file(descriptor: int, path: Path) -> Iterator[None]:
    """Appends what this process and its children write to the descriptor to the file."""
    with path.open("ab") as file, _redirected(descriptor, file.fileno()):
        yield


@contextlib.contextmanager
def _print_stdout_above(console: Console) -> Iterator[None]:
    """Prints the lines that this process and its children write to stdout above the view."""
    reading, writing = os.pipe()

    def print_lines() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                console.out(line.rstrip("\n"), highlight=False)

    thread = threading.Thread(target=print_lines, name="stdout", daemon=True)
    with _redirected(1, writing):
        os.close(writing)
        thread.start()
        yield
    # All writers are gone by now; if one is left, the thread ends with the process.
    thread.join(2.0)


@contextlib.contextmanager
def _redirected(descriptor: int, target: int) -> Iterator[None]:
    original = os.dup(descriptor)
    os.dup2(target, descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(original, descriptor)
        os.close(original)


def warning_in(line: str) -> str | None:
    """The time and text of a log line that is a warning or an error; None for any other line."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in _LEVELS:
        return None
    logger = str(entry.get("logger", "")).rpartition(".")[2]
    words = [logger, entry.get("message"), entry.get("reason")]
    words += [entry.get("cause") or entry.get("error") or entry.get("rootCause")]
    text = ": ".join(str(word) for word in words if word)
    return f"{str(entry.get('time', ''))[11:19]} {text}".strip()


class LogTail:
    """Reads what is appended to a file after it was opened here, and keeps the last warning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._incomplete = b""
        self.last_warning = ""

    def read_new(self) -> str:
        """Reads on to the end of the file; the last warning so far, or an empty string."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        self._offset += len(new)
        *lines, self._incomplete = (self._incomplete + new).split(b"\n")
        for line in lines:
            self.last_warning = warning_in(line.decode(errors="replace")) or self.last_warning
        return self.last_warning
