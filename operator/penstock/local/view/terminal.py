"""The live view in a terminal: drawn on stderr, with the log in a file and rows above the view.

What writes to the log is also a JVM, so the streams are exchanged below Python: file descriptor 2
becomes the log file, and 1, where it is the same terminal, a pipe whose lines are printed above the
view.
"""

from __future__ import annotations

import contextlib
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
from penstock.local.view.log_tail import LogTail
from penstock.local.view.rates import Progress
from penstock.local.view.rows import STOPPED, Facts, rows, state_of

_STYLES: dict[str, str] = {
    QueryState.RUNNING: "bold green",
    QueryState.COMPLETED: "bold green",
    QueryState.FAILED: "bold red",
    QueryState.RESTARTING: "bold red",
    STOPPED: "bold",
}
_FRAMES_A_SECOND = 4


class _Console(Console):
    """A console that leaves the cursor on, so that nothing is to be restored if we are killed."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


def drawn(progress: Progress, facts: Facts, monotonic: float, clock: datetime) -> Group:
    """The view as rich draws it."""
    state = state_of(progress)
    head = Text.assemble(
        (facts.name, "bold"), "  ", (str(state), _STYLES.get(state, "bold yellow")), "  ",
        (facts.trigger, "dim"),
    )  # fmt: skip
    table = Table.grid(padding=(0, 2))
    for label, value in rows(progress, facts, monotonic, clock):
        table.add_row(Text(f"  {label}", "dim"), Text(value))
    return Group(head, table)


class Screen:
    """The view, for the length of a `with` block; the last picture stays on the terminal."""

    def __init__(self, log: Path, facts: Callable[[str], Facts]) -> None:
        self._log = log
        self._facts = facts
        self._tail = LogTail(log)
        self._progress = Progress()

    @property
    def complaint(self) -> str:
        """The last warning or error of the log."""
        return self._tail.look()

    def see(self, progress: Progress) -> None:
        """Shows this from now on."""
        self._progress = progress

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Screen]:
        with contextlib.ExitStack() as undo:
            terminal = undo.enter_context(os.fdopen(os.dup(2), "w", buffering=1))
            console = _Console(file=terminal, force_terminal=True)
            undo.enter_context(_into_file(2, self._log))
            logs.set_up()
            live = Live(
                console=console,
                get_renderable=self._picture,
                refresh_per_second=_FRAMES_A_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            undo.enter_context(live)
            if os.isatty(1):
                undo.enter_context(_above(console))
            yield self

    def _picture(self) -> Group:
        facts = self._facts(self._tail.look())
        return drawn(self._progress, facts, time.monotonic(), datetime.now(UTC))


@contextlib.contextmanager
def _into_file(descriptor: int, path: Path) -> Iterator[None]:
    """Everything written to the descriptor goes to the file's end, by us and by our children."""
    with path.open("ab") as file, _exchanged(descriptor, file.fileno()):
        yield


@contextlib.contextmanager
def _above(console: Console) -> Iterator[None]:
    """Lines written to stdout, by us and by our children, are printed above the view."""
    reading, writing = os.pipe()

    def print_lines() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                console.out(line.rstrip("\n"), highlight=False)

    thread = threading.Thread(target=print_lines, name="stdout", daemon=True)
    with _exchanged(1, writing):
        os.close(writing)
        thread.start()
        yield
    # All who could write are gone by now; if not, the thread ends with the process.
    thread.join(2.0)


@contextlib.contextmanager
def _exchanged(descriptor: int, other: int) -> Iterator[None]:
    kept = os.dup(descriptor)
    os.dup2(other, descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(kept, descriptor)
        os.close(kept)
