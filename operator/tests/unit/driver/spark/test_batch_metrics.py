"""Each batch that Spark reports is read once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from penstock.driver.spark.batch_metrics import BatchReader

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Progress:
    """A StreamingQueryProgress of Spark, with its number as its rows of state."""

    number: int

    def timestamp(self) -> str:
        return f"2026-01-01T00:00:{self.number:02}.000Z"

    def json(self) -> str:
        return json.dumps({"stateOperators": [{"numRowsTotal": self.number}]})


def read(reader: BatchReader, *numbers: int) -> list[int]:
    """What the reader finds new in a query that reports these."""
    recent = [Progress(number) for number in numbers]
    query = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: recent))
    return [each.state_rows for each in reader.new_batches(cast("StreamingQuery", query))]


def test_each_batch_is_read_once_in_order() -> None:
    reader = BatchReader()
    assert read(reader, 1, 2) == [1, 2]
    assert read(reader, 1, 2) == []
    assert read(reader, 1, 2, 3, 4) == [3, 4]


def test_batches_that_spark_no_longer_keeps_are_missed_and_no_other() -> None:
    reader = BatchReader()
    assert read(reader, 1, 2) == [1, 2]
    assert read(reader, 8, 9) == [8, 9]


def test_a_new_query_starts_anew() -> None:
    reader = BatchReader()
    assert read(reader, 1, 2) == [1, 2]
    assert read(reader) == []
    assert read(reader, 5) == [5]
