"""What `penstock top` shows: the fleet with its throughput, what needs someone first."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.api.v1alpha1.status import StreamState
from penstock.client.cluster_facts import ClusterFacts, StreamFacts
from penstock.client.formatting import NONE, number, table
from penstock.client.view.status import HEAD, rows
from penstock.cluster.kinds import Key
from penstock.cluster.rest_api import ApiError

# What needs a person comes first, then what heals itself, then what runs.
_ORDER = (
    StreamState.STALLED,
    StreamState.RESTARTING,
    StreamState.PENDING,
    StreamState.WAITING_FOR_CORES,
    StreamState.STARTING,
    StreamState.RUNNING,
    StreamState.COMPLETED,
    StreamState.SUSPENDING,
    StreamState.SUSPENDED,
)
COLUMNS = (*HEAD, "RECORDS/S", "LATENCY")
_SHORTEST = timedelta(milliseconds=500)

# When the records of each stream were counted, and how many there were.
Counts = Mapping[Key, tuple[datetime, float]]


def sorted_streams(facts: ClusterFacts) -> list[StreamFacts]:
    """Those that are not well first; among equals those with more lag."""

    def key(stream: StreamFacts) -> tuple[bool, int, int, Key]:
        states = [str(each) for each in _ORDER]
        # A state of a later version comes after the failures of this one.
        unknown = states.index(StreamState.STARTING)
        place = states.index(stream.state) if stream.state in states else unknown
        is_at_rest = stream.state in (StreamState.SUSPENDING, StreamState.SUSPENDED)
        is_well = (stream.holds("Ready") or is_at_rest) and not stream.holds("Stalled")
        return is_well, place, -(stream.lag or 0), stream.key

    return sorted(facts.streams, key=key)


def counts(facts: ClusterFacts) -> Counts:
    """What the next frame computes rates from."""
    return {
        stream.key: (facts.now, stream.metrics.records)
        for stream in facts.streams
        if stream.metrics is not None and stream.metrics.records is not None
    }


def frame(facts: ClusterFacts, before: Counts) -> list[Sequence[str]]:
    """A row for each stream, in the order of COLUMNS."""
    streams = sorted_streams(facts)
    return [
        (*row, _rate(stream, facts, before), _latency(stream))
        for row, stream in zip(rows(facts, streams), streams, strict=True)
    ]


def summary(facts: ClusterFacts) -> str:
    """One line above the table."""
    ready = sum(stream.holds("Ready") for stream in facts.streams)
    lag = sum(stream.lag or 0 for stream in facts.streams)
    what = ", ".join(fact.what for fact in facts.not_read)
    not_read = f"; not read: {what}" if what else ""
    return (
        f"{facts.now:%H:%M:%S} UTC: {ready} of {len(facts.streams)} streams Ready, "
        f"{number(lag)} records behind{not_read}"
    )


def _rate(stream: StreamFacts, facts: ClusterFacts, before: Counts) -> str:
    records = stream.metrics.records if stream.metrics else None
    then = before.get(stream.key)
    if records is None or then is None or facts.now - then[0] < _SHORTEST or records < then[1]:
        return NONE  # a new driver counts from zero
    return number((records - then[1]) / (facts.now - then[0]).total_seconds())


def _latency(stream: StreamFacts) -> str:
    latency = stream.metrics.latency if stream.metrics else None
    return NONE if latency is None else f"{latency:.2f}s"


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
_STATE = COLUMNS.index("STATE")

Draw = Callable[[str, Sequence[Sequence[str]]], None]


def show(read: Callable[[], ClusterFacts], interval: float, iterations: int | None) -> None:
    """Draws until the number of iterations, or for ever.

    An API server that is away is said above the last table; the first question must succeed.
    """
    with _drawing() as draw:
        before: Counts = {}
        rows: Sequence[Sequence[str]] = ()
        number = 0
        while True:
            number += 1
            try:
                facts = read()
                rows, summary_line = frame(facts, before), summary(facts)
                before = counts(facts)
            except ApiError as error:
                if number == 1:
                    raise
                summary_line = f"the API server does not answer, this is old: {error.message}"
            draw(summary_line, rows)
            if iterations is not None and number >= iterations:
                return
            time.sleep(interval)


@contextmanager
def _drawing() -> Iterator[Draw]:
    if not sys.stdout.isatty():
        yield _print
        return
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        yield lambda summary_line, rows: live.update(_render(summary_line, rows), refresh=True)


def _print(summary_line: str, rows: Sequence[Sequence[str]]) -> None:
    sys.stdout.write("\n".join([summary_line, *table(COLUMNS, rows)]) + "\n")
    sys.stdout.flush()


def _render(summary_line: str, rows: Sequence[Sequence[str]]) -> Group:
    drawn = Table(box=None, padding=(0, 1), header_style="dim")
    for column in COLUMNS:
        drawn.add_column(column, no_wrap=True)
    for row in rows:
        style = _STYLES.get(row[_STATE], "")
        cells = [Text(cell, style if i == _STATE else "") for i, cell in enumerate(row)]
        drawn.add_row(*cells)
    return Group(Text(summary_line, "dim"), drawn)
