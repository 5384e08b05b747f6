"""Spark's own metrics of a batch, from the micro-batch and real-time engines.

They come from StreamingQueryProgress, which continuous mode does not have (measured, Spark 4.2 and
4.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class BatchMetrics:
    """The metrics of one batch."""

    input_rows_per_second: float
    processed_rows_per_second: float
    state_rows: int
    state_memory: int
    """Bytes."""
    watermark: float | None
    """Event time, in seconds since 1970."""
    durations: Mapping[str, float]
    """Seconds by part of the batch, in Spark's words; triggerExecution is the whole."""
    late_rows: int
    """Rows that stateful operators dropped because they came after the watermark."""


class BatchReader:
    """Reads each batch of the queries of one driver once. Not for use by two threads."""

    def __init__(self) -> None:
        self._last: str | None = None

    def new_batches(self, query: StreamingQuery) -> list[BatchMetrics]:
        """The batches since the last call, oldest first; none in continuous mode.

        Spark keeps the last 100 (spark.sql.streaming.numRecentProgressUpdates).
        """
        recent, new = query._jsq.recentProgress(), []
        for number in range(len(recent) - 1, -1, -1):
            # One progress report for each trigger, and one query at a time.
            name = str(recent[number].timestamp())
            if name == self._last:
                break
            new.append((name, read(recent[number].json())))
        if new:
            self._last = new[0][0]
        return [batch for _, batch in reversed(new)]


def read(progress: str) -> BatchMetrics:
    """The metrics in a progress report's JSON; a rate that Spark could not measure is 0."""
    document = json.loads(progress)
    state = document.get("stateOperators") or []
    watermark = (document.get("eventTime") or {}).get("watermark")
    durations = document.get("durationMs") or {}
    return BatchMetrics(
        input_rows_per_second=_rate(document.get("inputRowsPerSecond")),
        processed_rows_per_second=_rate(document.get("processedRowsPerSecond")),
        state_rows=sum(each.get("numRowsTotal", 0) for each in state),
        state_memory=sum(each.get("memoryUsedBytes", 0) for each in state),
        watermark=None if watermark is None else datetime.fromisoformat(watermark).timestamp(),
        durations={part: milliseconds / 1000 for part, milliseconds in durations.items()},
        late_rows=sum(each.get("numRowsDroppedByWatermark", 0) for each in state),
    )


def _rate(value: float | str | None) -> float:
    """Spark writes NaN and Infinity as text, or not at all."""
    return float(value) if isinstance(value, int | float) else 0.0
