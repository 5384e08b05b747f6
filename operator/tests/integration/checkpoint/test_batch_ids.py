"""A repair never gives other records the id of a batch that the sink may have written already.

A sink that recognises a batch by its id would skip them. Spark's file sink is one: it keeps the ids
in `_spark_metadata` (FileStreamSink.addBatch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.driver.checkpoint.files import checksum_path
from testkit.driver.bare_query import bare, parquet_flow, total, written
from testkit.kafka.topics import Topics

pytestmark = pytest.mark.timeout(180)

Harm = Callable[[Path], None]


def power_cut(checkpoint: Path, batch: int) -> None:
    """The commit of the batch did not reach the disk, and of its offsets only the name."""
    (checkpoint / f"commits/{batch}").unlink()
    (checkpoint / checksum_path(f"commits/{batch}")).unlink()
    (checkpoint / f"offsets/{batch}").write_bytes(b"")


def run_until(spark: SparkSession, topics: Topics, source: str, path: Path, records: int) -> None:
    """Runs until this many records of the topic are committed."""
    flow = parquet_flow(topics, source, path / "sink")
    with bare(spark, flow, path / "checkpoint") as running:
        progress = running.folder.progress
        running.wait("committed", lambda: total(progress.committed_offsets()) == records)


@pytest.mark.parametrize("batch", [1, 0])
def test_a_batch_that_the_sink_has_is_not_planned_with_more_records(
    batch: int, spark: SparkSession, shared: Topics, tmp_path: Path
) -> None:
    """The records that came meanwhile would be in no file."""
    source, sent = shared.make(), 0
    for _ in range(batch + 1):
        shared.send(source, range(sent, sent + 100))
        sent += 100
        run_until(spark, shared, source, tmp_path, sent)
    assert (tmp_path / f"sink/_spark_metadata/{batch}").exists()
    power_cut(tmp_path / "checkpoint", batch)
    shared.send(source, range(sent, sent + 100))
    run_until(spark, shared, source, tmp_path, sent + 100)
    twice = range(100 * batch, 100 * (batch + 1))
    assert written(spark, tmp_path / "sink") == Counter([*range(sent + 100), *twice])
