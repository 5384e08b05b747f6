"""Spark's own metrics of a batch, from the micro-batch and real-time engines.

They come from StreamingQueryProgress, which continuous mode does not have (measured, Spark 4.2 and
4.3).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class BatchMetrics:
    """The metrics of the last batch."""

    input_rows_per_second: float
    processed_rows_per_second: float
    state_rows: int
    state_memory: int
    """Bytes."""
    watermark: float | None
    """Event time, in seconds since 1970."""


def last_batch(query: StreamingQuery) -> BatchMetrics | None:
    """The metrics of the last batch; None before the first, and in continuous mode."""
    progress = query._jsq.lastProgress()
    return None if progress is None else read(progress.json())


def read(progress: str) -> BatchMetrics:
    """The metrics in a progress report's JSON; a rate that Spark could not measure is 0."""
    document = json.loads(progress)
    state = document.get("stateOperators") or []
    watermark = (document.get("eventTime") or {}).get("watermark")
    return BatchMetrics(
        input_rows_per_second=_rate(document.get("inputRowsPerSecond")),
        processed_rows_per_second=_rate(document.get("processedRowsPerSecond")),
        state_rows=sum(each.get("numRowsTotal", 0) for each in state),
        state_memory=sum(each.get("memoryUsedBytes", 0) for each in state),
        watermark=None if watermark is None else datetime.fromisoformat(watermark).timestamp(),
    )


def _rate(value: float | str | None) -> float:
    """Spark writes NaN and Infinity as text, or not at all."""
    return float(value) if isinstance(value, int | float) else 0.0
