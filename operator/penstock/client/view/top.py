"""Draws the fleet again and again: in place on a terminal, one table after the other elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.client.facts import ClusterFacts
from penstock.client.text import table
from penstock.client.view import fleet
from penstock.cluster.rest import ApiError

_STYLES = {
    "Running": "green",
    "Completed": "green",
    "Suspending": "dim",
    "Suspended": "dim",
    "Stalled": "bold red",
    "Restarting": "bold red",
    "Pending": "yellow",
    "WaitingForCores": "yellow",
    "Starting": "yellow",
}
_STATE = fleet.COLUMNS.index("STATE")

Draw = Callable[[str, Sequence[Sequence[str]]], None]


def show(read: Callable[[], ClusterFacts], interval: float, iterations: int | None) -> None:
    """Draws until the number of iterations, or for ever.

    An API server that is away is said above the last table; the first question must succeed.
    """
    with _drawing() as draw:
        before: fleet.Counts = {}
        rows: Sequence[Sequence[str]] = ()
        number = 0
        while True:
            number += 1
            try:
                facts = read()
                rows, said = fleet.frame(facts, before), fleet.summary(facts)
                before = fleet.counts(facts)
            except ApiError as error:
                if number == 1:
                    raise
                said = f"the API server does not answer, this is old: {error.message}"
            draw(said, rows)
            if iterations is not None and number >= iterations:
                return
            time.sleep(interval)


@contextmanager
def _drawing() -> Iterator[Draw]:
    """How to draw on the standard output."""
    if not sys.stdout.isatty():
        yield _print
        return
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        yield lambda said, rows: live.update(_render(said, rows), refresh=True)


def _print(said: str, rows: Sequence[Sequence[str]]) -> None:
    sys.stdout.write("\n".join([said, *table(fleet.COLUMNS, rows)]) + "\n")
    sys.stdout.flush()


def _render(said: str, rows: Sequence[Sequence[str]]) -> Group:
    drawn = Table(box=None, padding=(0, 1), header_style="dim")
    for column in fleet.COLUMNS:
        drawn.add_column(column, no_wrap=True)
    for row in rows:
        style = _STYLES.get(row[_STATE], "")
        cells = [Text(cell, style if i == _STATE else "") for i, cell in enumerate(row)]
        drawn.add_row(*cells)
    return Group(Text(said, "dim"), drawn)
