"""Real queries with a source beside spec.source: its place in the checkpoint stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.driver.checkpoint.data_loss_check import check_for_data_loss
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.source_monitor import source_monitor
from testkit.driver.bare_query import bare, newest, parquet_flow, written
from testkit.driver.checkpoints import folder_at, read
from testkit.kafka.topics import Topics

pytestmark = [pytest.mark.timeout(300), pytest.mark.proves("checkpoints.md#several-sources")]

Also = Callable[[DataFrame], DataFrame]


def power_cut(checkpoint: Path, batch: int) -> None:
    """The commit of the batch did not reach the disk, and of its offsets only the name."""
    (checkpoint / f"commits/{batch}").unlink(missing_ok=True)
    (checkpoint / f"offsets/{batch}").write_bytes(b"")


def put(topics: Topics, topic: str, number: int) -> None:
    topics.send(topic, range(number, number + 1))


def another_topic(topics: Topics, path: Path) -> tuple[Also, Callable[[int], None]]:
    """A second topic, whose numbers go into the same files; and how to send one there."""
    topic = topics.make(1)

    def also(frame: DataFrame) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic,
            "startingOffsets": "earliest",
        }  # fmt: skip
        read = frame.sparkSession.readStream.format("kafka").options(**options).load()
        return frame.union(read.selectExpr("CAST(CAST(value AS STRING) AS INT) AS number"))

    return also, lambda number: put(topics, topic, number)


def files_beside(_: Topics, path: Path) -> tuple[Also, Callable[[int], None]]:
    path.mkdir()

    def also(frame: DataFrame) -> DataFrame:
        read = frame.sparkSession.readStream.schema("number INT").format("json").load(str(path))
        return frame.union(read)

    def send(number: int) -> None:
        draft = path / f".{number}"
        draft.write_text(f'{{"number":{number}}}')
        draft.replace(path / f"{number}.json")

    return also, send


def run(
    spark: SparkSession, path: Path, also: Also, topics: Topics, source: str, wanted: Counter[int]
) -> None:
    """Runs until all of these numbers are in the sink."""
    flow = parquet_flow(topics, source, path / "sink")

    def has_all() -> bool:
        is_there = (path / "sink/_spark_metadata").exists()
        return is_there and not wanted - written(spark, path / "sink")

    with bare(spark, flow, path / "checkpoint", also) as running:
        running.wait("all", has_all)


@pytest.mark.proves(7)
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("other", [another_topic, files_beside])
def test_a_lost_batch_of_two_sources_is_planned_without_records(
    other: Any, batch: int, spark: SparkSession, shared: Topics, tmp_path: Path
) -> None:
    """The sink has the batch; both sources read it again, and their new records, as the next."""
    source = shared.make(1)
    also, send = other(shared, tmp_path / "other")
    for number in range(batch + 1):
        put(shared, source, number)
        send(100 + number)
        sent = Counter([*range(number + 1), *range(100, 101 + number)])
        run(spark, tmp_path, also, shared, source, sent)
    lost = newest(read(tmp_path / "checkpoint"))
    before = written(spark, tmp_path / "sink")
    power_cut(tmp_path / "checkpoint", lost)
    put(shared, source, 50)
    send(150)
    run(spark, tmp_path, also, shared, source, before + Counter([50, 150]))
    found = written(spark, tmp_path / "sink")
    assert found.keys() == {*before, 50, 150}
    assert all(count <= 2 for count in found.values())
    # All that was in the first batch is read again with it.
    assert lost > 0 or all(found[number] == 2 for number in (0, 100))


@pytest.mark.proves(7)
def test_a_start_leaves_the_offsets_of_another_topic_as_they_are(
    spark: SparkSession, jvm: Jvm, shared: Topics, tmp_path: Path
) -> None:
    """They were replaced by those of the first topic: its records came again, or were lost."""
    kept, removed, path = shared.make(1), shared.make(1), tmp_path / "checkpoint"
    also, send = another_topic(shared, tmp_path)
    both = parquet_flow(shared, [kept, removed], tmp_path / "sink")
    put(shared, kept, 1)
    put(shared, removed, 2)
    send(3)
    with bare(spark, both, path, also) as running:
        running.wait("all", lambda: total_of(running.folder) == 3)
    one = parquet_flow(shared, kept, tmp_path / "sink").spec
    for spec in (both.spec, one):  # the ids of the topics are stored at the first start
        monitor, folder = source_monitor(jvm, spec, tmp_path), folder_at(path)
        try:
            monitor.poll()
            other = folder.next_offsets()[1]
            assert check_for_data_loss(spec, folder, monitor, folder.repair(spec)) is None
            assert folder.next_offsets()[1] == other
        finally:
            monitor.close()
    assert folder.next_offsets()[0] == {kept: {0: 1}}
    put(shared, kept, 4)
    send(5)
    wanted = Counter([1, 2, 3, 4, 5])
    run(spark, tmp_path, also, shared, kept, wanted)
    assert written(spark, tmp_path / "sink") == wanted


def total_of(folder: CheckpointFolder) -> int:
    offsets = folder.progress.committed_offsets() or {}
    return sum(at for of in offsets.values() for at in of.values())


def test_the_log_of_rate_beside_kafka_is_left_alone(
    spark: SparkSession, shared: Topics, tmp_path: Path
) -> None:
    """It has the time from which rate counts: without it each start began to count anew."""
    source, path = shared.make(1), tmp_path / "checkpoint"

    def also(frame: DataFrame) -> DataFrame:
        rate = frame.sparkSession.readStream.format("rate").option("rowsPerSecond", 5).load()
        return frame.union(rate.selectExpr("CAST(value + 1000 AS INT) AS number"))

    logs = set()
    for number in (1, 2):
        put(shared, source, number)
        sent = Counter([*range(1, number + 1), *range(1000, 1000 + 5 * number)])
        run(spark, tmp_path, also, shared, source, sent)
        logs.add((path / "sources/1/0").read_bytes())
    assert len(logs) == 1
    found = written(spark, tmp_path / "sink")
    assert set(found.values()) == {1}
    assert sorted(number for number in found if number >= 1000) == list(
        range(1000, 1000 + len(found) - 2)
    )
