"""Spark's own metrics of a batch, from the micro-batch and real-time engines.

They come from StreamingQueryProgress, which continuous mode does not have (measured, Spark 4.2 and
4.3). It is read from the query's recent progress. A StreamingQueryListener in Python would need
Py4J's callback server, as sink.python does: another port, and a call into Python on each batch, in
the JVM's event thread. Its queue drops events too, if it is full (spark.scheduler.listenerbus).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_ROCKSDB = "rocksdb"
# More than end between two looks.
_MAX_ENDED = 10


@dataclass(frozen=True)
class RocksDbMetrics:
    """What RocksDB did in one batch, in Spark's words without their prefix and unit."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """Summed over the tasks, such as CommitFileSync and Get."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """How often, such as Get and ReadBlockCacheMiss."""
    file_bytes: int = 0
    """The size of all SST files."""


@dataclass(frozen=True)
class StateMetrics:
    """The state of all stateful operators of a query, after one batch."""

    rows: int
    memory: int
    """Bytes."""
    updated_rows: int
    removed_rows: int
    late_rows: int
    """Rows that were dropped because they came after the watermark."""
    commit_seconds: float
    """Time to commit the state, summed over the tasks."""
    rocksdb: RocksDbMetrics | None
    """None with another state store."""


@dataclass(frozen=True)
class BatchMetrics:
    """The metrics of one batch."""

    batch: int
    """Its id."""
    input_rows: int
    output_rows: int | None
    """None if the sink does not count them."""
    input_rows_per_second: float
    processed_rows_per_second: float
    watermark: float | None
    """Event time, in seconds since 1970."""
    durations: Mapping[str, float]
    """Seconds by part of the batch, in Spark's words; triggerExecution is the whole."""
    state: StateMetrics | None
    """None for a stateless query."""


@dataclass(frozen=True)
class NewBatches:
    """The batches since the last look."""

    batches: list[BatchMetrics]
    """Oldest first."""
    missed: int = 0
    """Batches that ended, and that Spark no longer keeps."""


class BatchReader:
    """Reads each batch of the queries of one driver once.

    One thread may call `keep` while another calls `new_batches`.
    """

    def __init__(self) -> None:
        self._ended: deque[StreamingQuery] = deque(maxlen=_MAX_ENDED)
        self._run = ""
        self._seen: str | None = None
        """The newest entry of that run that was read, by its time."""
        self._last: int | None = None
        """The newest batch of that run that was read."""

    def keep(self, ended: StreamingQuery | None) -> None:
        """Keeps a query that has ended until its last batches have been read."""
        if ended is not None:
            self._ended.append(ended)

    def new_batches(self, running: StreamingQuery | None) -> NewBatches:
        """The batches since the last call, also of queries that have ended; none if continuous."""
        # `running` first: the query before it has been kept by then, and is read before it.
        queries = [self._ended.popleft() for _ in range(len(self._ended))]
        by_query = [self._of(query) for query in (*queries, running) if query is not None]
        return NewBatches(
            [batch for new in by_query for batch in new.batches],
            sum(new.missed for new in by_query),
        )

    def _of(self, query: StreamingQuery) -> NewBatches:
        """The new batches of one query.

        Spark keeps the last 99 (one less than spark.sql.streaming.numRecentProgressUpdates). While
        it is idle a query adds an entry every ten seconds (ProgressReporter.updateIdleness).
        """
        run = str(query.runId)
        if run != self._run:
            self._run, self._seen, self._last = run, None, None
        new: list[BatchMetrics] = []
        recent, newest = query._jsq.recentProgress(), self._seen
        for number in range(len(recent) - 1, -1, -1):
            # From the newest back: a look that finds nothing new makes one call.
            time = str(recent[number].timestamp())
            if time == self._seen:
                break
            newest = time if not new else newest
            new.append(read(recent[number].json()))
        self._seen = newest
        return self._take(executed(reversed(new)))

    def _take(self, batches: list[BatchMetrics]) -> NewBatches:
        if not batches:
            return NewBatches([])
        numbers = [batch.batch for batch in batches]
        before = numbers[0] - 1 if self._last is None else self._last
        self._last = numbers[-1]
        return NewBatches(batches, missed=self._last - before - len(numbers))


def executed(entries: Iterable[BatchMetrics]) -> list[BatchMetrics]:
    """Without the entries of an idle query: Spark times `addBatch` only where there was a batch."""
    return [batch for batch in entries if "addBatch" in batch.durations]


def read(progress: str) -> BatchMetrics:
    """The metrics in a progress report's JSON; a rate that Spark could not measure is 0."""
    document = json.loads(progress)
    watermark = (document.get("eventTime") or {}).get("watermark")
    durations = document.get("durationMs") or {}
    written = (document.get("sink") or {}).get("numOutputRows", -1)
    operators = document.get("stateOperators")
    return BatchMetrics(
        batch=int(document["batchId"]),
        input_rows=int(document.get("numInputRows", 0)),
        output_rows=written if written >= 0 else None,
        input_rows_per_second=_rate(document.get("inputRowsPerSecond")),
        processed_rows_per_second=_rate(document.get("processedRowsPerSecond")),
        watermark=None if watermark is None else datetime.fromisoformat(watermark).timestamp(),
        durations={part: milliseconds / 1000 for part, milliseconds in durations.items()},
        state=_state(operators) if operators else None,
    )


def _state(operators: list[dict[str, Any]]) -> StateMetrics:
    def total(name: str) -> int:
        return sum(operator.get(name, 0) for operator in operators)

    return StateMetrics(
        rows=total("numRowsTotal"),
        memory=total("memoryUsedBytes"),
        updated_rows=total("numRowsUpdated"),
        removed_rows=total("numRowsRemoved"),
        late_rows=total("numRowsDroppedByWatermark"),
        commit_seconds=total("commitTimeMs") / 1000,
        rocksdb=_rocksdb([operator.get("customMetrics") or {} for operator in operators]),
    )


def _rocksdb(by_operator: list[dict[str, int]]) -> RocksDbMetrics | None:
    total: dict[str, int] = {}
    for metrics in by_operator:
        for name, value in metrics.items():
            if name.startswith(_ROCKSDB):
                short = name.removeprefix(_ROCKSDB)
                total[short] = total.get(short, 0) + value
    if not total:
        return None
    return RocksDbMetrics(
        # Milliseconds, whatever the name says (RocksDBStateStoreProvider, Spark 4.2).
        seconds={
            name.removesuffix("Ms").removesuffix("Latency"): value / 1000
            for name, value in total.items()
            if name.removesuffix("Ms").endswith("Latency")
        },
        operations={
            name.removesuffix("Count"): value
            for name, value in total.items()
            if name.endswith("Count")
        },
        file_bytes=total.get("SstFileSize", 0),
    )


def _rate(value: float | str | None) -> float:
    """Spark writes NaN and Infinity as text, or not at all."""
    return float(value) if isinstance(value, int | float) else 0.0
