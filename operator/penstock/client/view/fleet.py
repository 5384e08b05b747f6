"""What `penstock top` shows: the fleet with its throughput, what needs someone first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from penstock.api.v1alpha1.status import StreamState
from penstock.client.facts import ClusterFacts, StreamFacts
from penstock.client.text import NONE, number
from penstock.client.view.status import HEAD, rows
from penstock.cluster.kinds import Key

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
        each.key: (facts.now, each.metrics.records)
        for each in facts.streams
        if each.metrics is not None and each.metrics.records is not None
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
    ready = sum(each.holds("Ready") for each in facts.streams)
    lag = sum(each.lag or 0 for each in facts.streams)
    unread = f"; not read: {', '.join(each.what for each in facts.unread)}" if facts.unread else ""
    return (
        f"{facts.now:%H:%M:%S} UTC: {ready} of {len(facts.streams)} streams Ready, "
        f"{number(lag)} records behind{unread}"
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
