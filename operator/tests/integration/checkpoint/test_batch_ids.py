"""A repair never gives other records the id of a batch that the sink may have written already.

A sink that recognises a batch by its id would skip them. Spark's file sink is one: it keeps the ids
in `_spark_metadata` (FileStreamSink.addBatch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.driver.checkpoint.data_loss_check import check_for_data_loss
from penstock.driver.failures import DriverError
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.source_monitor import source_monitor
from testkit.driver.bare_query import bare, parquet_flow, written
from testkit.driver.checkpoints import folder_at, offsets_at, path_of, read
from testkit.kafka.topics import Topics, total
from testkit.streams.streams import MICRO_BATCH, RATE, stream

pytestmark = pytest.mark.timeout(300)

Harm = Callable[[Path], None]


def power_cut(checkpoint: Path, batch: int) -> None:
    """The commit of the batch did not reach the disk, and of its offsets only the name."""
    (checkpoint / f"commits/{batch}").unlink()
    (checkpoint / f"offsets/{batch}").write_bytes(b"")


def run_until(
    spark: SparkSession,
    topics: Topics,
    source: str | list[str],
    path: Path,
    records: int,
    **spec: Any,
) -> int:
    """Runs until this many records of the source are committed; returns the number of the batch."""
    flow = parquet_flow(topics, source, path / "sink", **spec)
    with bare(spark, flow, path / "checkpoint") as running:
        progress = running.folder.progress
        running.wait("committed", lambda: total(progress.committed_offsets()) == records)
    batch = running.folder.progress.committed_epoch()
    assert batch is not None
    return batch


@pytest.mark.proves(7)
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


COUNTED = {
    "sql": "SELECT window.start AS start, CAST(count(*) AS INT) AS number FROM source "
    "GROUP BY window(timestamp, '1 second')",
    "watermark": {"column": "timestamp", "delay": "0 seconds"},
}


def test_a_lost_batch_of_a_query_with_state_is_refused(
    spark: SparkSession, shared: Topics, tmp_path: Path
) -> None:
    """Spark would commit the empty batch without running it, and count its records twice."""
    source = shared.make(1)
    shared.send(source, range(100))
    batch = run_until(spark, shared, source, tmp_path, 100, transform=COUNTED)
    power_cut(tmp_path / "checkpoint", batch)
    with pytest.raises(DriverError, match="count its records twice"):
        run_until(spark, shared, source, tmp_path, 100, transform=COUNTED)


@pytest.fixture
def only_batches_with_records(spark: SparkSession) -> Iterator[None]:
    """Spark plans none for the watermark alone, which a stop might interrupt."""
    name = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(name, "false")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("only_batches_with_records")
@pytest.mark.parametrize("is_planned", [True, False])
def test_a_topic_that_is_removed_from_a_planned_batch_of_a_query_with_state(
    is_planned: bool, spark: SparkSession, jvm: Jvm, shared: Topics, tmp_path: Path
) -> None:
    """Sink and state may have the batch, of which the stream would read a part with another id."""
    kept, removed = shared.make(1), shared.make(1)
    for sent in (100, 200):
        for topic in (kept, removed):
            shared.send(topic, range(100))
        newest = run_until(spark, shared, [kept, removed], tmp_path, 2 * sent, transform=COUNTED)
    folder = folder_at(tmp_path / "checkpoint")
    if is_planned:
        (path_of(folder) / f"commits/{newest}").unlink()
    edited = parquet_flow(shared, kept, tmp_path / "sink", transform=COUNTED).spec
    source = source_monitor(jvm, edited, tmp_path)
    try:
        source.poll()
        repair = folder.repair(edited)
        if is_planned:
            before = read(path_of(folder))
            with pytest.raises(DriverError, match=f"CheckpointHoldsState: Batch {newest} "):
                check_for_data_loss(edited, folder, source, repair)
            assert read(path_of(folder)) == before
        else:
            assert check_for_data_loss(edited, folder, source, repair) is None
            assert offsets_at(folder, newest) == {kept: {0: 200}}
    finally:
        source.close()


def run_rate(spark: SparkSession, path: Path) -> bytes:
    """Runs a batch with a rate source; returns where the source keeps its start time."""
    with bare(spark, stream(RATE, {"noop": {}}, trigger=MICRO_BATCH), path) as running:
        progress, before = running.folder.progress, running.repair.epoch or 0
        running.wait("a batch", lambda: (progress.committed_epoch() or 0) > before)
    return (path / "sources/0/0").read_bytes()


def test_a_restart_leaves_the_log_of_another_source_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is where Kafka keeps its initial offsets, in another format."""
    first = run_rate(spark, tmp_path)
    assert run_rate(spark, tmp_path) == first
