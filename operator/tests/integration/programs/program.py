"""A program: a query that people run on Structured Streaming, its input and its right output.

Texts of a spec may name topics and folders, which each run makes anew: `<in>` stands for the topic
`in` of the run, `<topics>` for what the names of its topics begin with, `<folder>` for a folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testkit.streams.streams import ASYNC, AVAILABLE_NOW, MICRO_BATCH

# Short epochs: a stop waits for the next commit.
MODES: dict[str, dict[str, Any]] = {
    "C": {"trigger": {"continuous": {"checkpointInterval": "300ms"}}},
    "R": {"trigger": {"realTime": {"batchDuration": "1s"}}},
    "S": {"trigger": ASYNC},
    "A": {"trigger": MICRO_BATCH},
    "U": {"trigger": MICRO_BATCH, "outputMode": "update"},
    "M": {"trigger": MICRO_BATCH, "outputMode": "complete"},
    "N": {"trigger": AVAILABLE_NOW},
}
"""The letters of a program's modes: continuous, real-time, asynchronous progress, micro-batch in
outputMode append, update and complete, availableNow."""


@dataclass(frozen=True)
class Record:
    """A record of a source topic, or a line of a source file."""

    value: str | bytes | None
    key: str | bytes | None = None
    topic: str = "in"
    partition: int | None = None
    """None: one partition after another."""
    headers: tuple[tuple[str, bytes], ...] = ()
    ms: int | None = None
    """Its timestamp in Kafka, in milliseconds since 1970; None: now."""
    compression: str = "none"
    transaction: bool | None = None
    """Whether the transaction that writes it is committed; None: it is in none."""


Row = tuple[object, ...]
"""A record of a sink topic, as what `Program.shows` names."""


@dataclass(frozen=True)
class Program:
    """A query, what it reads before and after a restart, and what it must have written then."""

    name: str
    address: str
    """Where people ask for it, or are told to do it. The query is written anew."""
    modes: str
    before: tuple[Record, ...]
    after: tuple[Record, ...]
    expected: tuple[Row, ...]
    """As a multiset. In outputMode update and complete, and with state in real-time mode: the last
    value of each key."""
    sql: str | None = None
    python: str | None = None
    """A module with the function `transform`."""
    transform: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=lambda: {"topics": ["<in>"]})
    """Fields of the Kafka source. It begins at the earliest record if they do not say where."""
    sink: dict[str, Any] = field(default_factory=lambda: {"topic": "<out>"})
    spec: dict[str, Any] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=lambda: {"in": 2, "out": 1})
    """The partitions of each topic, those of the sink included."""
    out: tuple[str, ...] = ("out",)
    """The topics of the sink."""
    shows: tuple[str, ...] = ("key", "value")
    """What of a written record is compared: key, value, topic, partition, headers."""
    prepare: Callable[[Path], None] = lambda _: None
    """Fills the folder before the first start."""
