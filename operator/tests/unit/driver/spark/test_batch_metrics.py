"""Each batch that Spark reports is read once, and one that it no longer keeps is counted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from penstock.driver.spark.batch_metrics import BatchReader, NewBatches

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Progress:
    """A StreamingQueryProgress of Spark."""

    batch: int
    time: int
    is_idle: bool = False

    def timestamp(self) -> str:
        return f"2026-01-01T00:00:{self.time:02}.000Z"

    def json(self) -> str:
        durations = {"latestOffset": 1} if self.is_idle else {"latestOffset": 1, "addBatch": 5}
        return json.dumps({"batchId": self.batch, "durationMs": durations})


def query(*recent: Progress, run: str = "first") -> StreamingQuery:
    """A query that reports these."""
    java = SimpleNamespace(recentProgress=lambda: list(recent))
    return cast("StreamingQuery", SimpleNamespace(runId=run, _jsq=java))


def batches(*numbers: int) -> list[Progress]:
    """The progress of these batches, one a second."""
    return [Progress(number, number) for number in numbers]


def ids(new: NewBatches) -> list[int]:
    return [each.batch for each in new.batches]


def test_each_batch_is_read_once_in_order() -> None:
    reader = BatchReader()
    assert ids(reader.new_batches(query(*batches(1, 2)))) == [1, 2]
    assert ids(reader.new_batches(query(*batches(1, 2)))) == []
    assert ids(reader.new_batches(query(*batches(1, 2, 3, 4)))) == [3, 4]
    assert ids(reader.new_batches(None)) == []


def test_batches_that_spark_no_longer_keeps_are_counted_as_missed() -> None:
    reader = BatchReader()
    assert reader.new_batches(query(*batches(5, 6))).missed == 0
    new = reader.new_batches(query(*batches(9, 10)))
    assert (ids(new), new.missed) == ([9, 10], 2)
    assert reader.new_batches(query(*batches(9, 10, 11))).missed == 0


def test_an_idle_query_has_no_batches() -> None:
    """Every ten seconds Spark repeats the last batch's id, with what it took to find no record."""
    reader = BatchReader()
    idle = Progress(-1, 3, is_idle=True)
    assert ids(reader.new_batches(query(idle))) == []
    assert ids(reader.new_batches(query(idle, Progress(7, 4)))) == [7]
    again = Progress(7, 14, is_idle=True)
    assert ids(reader.new_batches(query(idle, Progress(7, 4), again))) == []
    new = reader.new_batches(query(Progress(7, 4), again, Progress(8, 15)))
    assert (ids(new), new.missed) == ([8], 0)


def test_the_last_batches_of_a_query_that_has_ended_are_read() -> None:
    """Also if another query already runs, which repeats what was not committed."""
    reader = BatchReader()
    assert ids(reader.new_batches(query(*batches(1, 2)))) == [1, 2]
    reader.keep(query(*batches(1, 2, 3)))
    new = reader.new_batches(query(Progress(3, 9), run="second"))
    assert (ids(new), new.missed) == ([3, 3], 0)
    assert ids(reader.new_batches(query(Progress(3, 9), run="second"))) == []
