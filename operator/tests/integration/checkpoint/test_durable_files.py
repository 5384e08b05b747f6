"""The files of a checkpoint as connector/ writes them, in Spark, beside Spark's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.driver.spark import session
from testkit.driver.bare_query import SHORT_EPOCHS, bare, sparks_files
from testkit.kafka.topics import Topics, number_flow, total
from testkit.streams.streams import MICRO_BATCH


def checksums(folder: Path) -> list[Path]:
    return list(folder.rglob("*.crc"))


def manager(spark: SparkSession, folder: Path) -> tuple[Any, Any]:
    """Penstock's file manager for a folder, and Hadoop's class for paths."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path
    ours = jvm.dev.penstock.spark.checkpoint.DurableCheckpointFileManager
    return ours(path(f"file://{folder}"), spark._jsc.hadoopConfiguration()), path


def write(files: Any, path: Any, text: str, *, overwrite: bool) -> None:
    stream = files.createAtomic(path, overwrite)
    stream.write(text.encode())
    stream.close()


def test_of_two_writers_of_a_file_one_fails_and_its_path_is_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    files, path = manager(spark, tmp_path)
    ours = session.failed_write(spark.sparkContext._gateway)
    assert ours is not None
    ours.take()
    log = tmp_path / "commits"
    files.mkdirs(path(str(log)))
    both = [files.createAtomic(path(str(log / "7")), False) for _ in range(2)]
    for number, stream in enumerate(both):
        stream.write(str(number).encode())
    both[1].close()
    assert ours.take() is None
    with pytest.raises((Py4JJavaError, PySparkException), match="FileAlreadyExists"):
        both[0].close()
    assert ours.take() == str(log / "7")
    assert ours.take() is None
    both[0].cancel()
    assert (log / "7").read_text() == "1"


def test_a_cancelled_file_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    files, path = manager(spark, tmp_path)
    stream = files.createAtomic(path(str(tmp_path / "7")), False)
    stream.write(b"half")
    assert [file.name[:3] for file in tmp_path.iterdir()] == [".7."]
    stream.cancel()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_written_again_loses_the_checksum_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It would not fit, and Spark would refuse the file."""
    files, path = manager(spark, tmp_path)
    jvm: Any = spark._jvm
    sparks = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    conf = spark._jsc.hadoopConfiguration()
    plain = sparks.FileSystemBasedCheckpointFileManager(path(f"file://{tmp_path}"), conf)
    file = path(f"file://{tmp_path}/3.delta")
    write(plain, file, "spark's", overwrite=False)
    assert checksums(tmp_path)
    write(files, file, "ours", overwrite=True)
    assert checksums(tmp_path) == []
    assert plain.open(file).read() == ord("o")


def test_elsewhere_than_on_a_volume_spark_decides(spark: SparkSession, tmp_path: Path) -> None:
    """A sink's log may be in an object store."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path
    conf = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    # A file system of Hadoop that is no local one: it shows a folder under another scheme.
    conf.set("fs.viewfs.mounttable.store.link./log", f"file://{tmp_path}")
    ours = jvm.dev.penstock.spark.checkpoint.DurableCheckpointFileManager
    files = ours(path("viewfs://store/log"), conf)
    assert not files.isLocal()
    write(files, path("viewfs://store/log/0"), "v1", overwrite=False)
    assert (tmp_path / "0").read_text() == "v1"


@pytest.mark.parametrize("trigger", [SHORT_EPOCHS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_one_checkpoint_is_written_by_ours_and_by_sparks(
    trigger: dict[str, Any], spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    sent = 0

    def run() -> None:
        nonlocal sent
        with bare(spark, flow, tmp_path) as query:
            topics.send(source, range(sent, sent + 40))
            sent += 40
            progress = query.folder.progress
            query.wait("commits", lambda: total(progress.committed_offsets()) == sent)

    run()
    assert checksums(tmp_path) == []
    with sparks_files(spark):
        run()
    run()
    with sparks_files(spark):
        run()
    received = topics.wait_received(sink, range(sent))
    assert received.total() == sent


def test_state_is_read_by_ours_and_by_sparks(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """Counts by value, over three runs."""
    source, sink = topics.make(1), topics.make(1)
    flow = number_flow(
        topics, source, sink, MICRO_BATCH,
        transform={"sql": "SELECT CAST(count(*) AS STRING) AS value FROM source"},
        outputMode="update",
    )  # fmt: skip
    for number, own in enumerate((False, True, False), start=1):
        with sparks_files(spark) if own else nullcontext(), bare(spark, flow, tmp_path):
            topics.send(source, range(10))
            topics.wait_received(sink, [10 * number])
    assert max(topics.received(sink)) == 30


def test_no_program_is_started_for_a_file(
    topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    source, sink = topics.make(1), topics.make(1)
    flow = number_flow(topics, source, sink, MICRO_BATCH)

    def started(folder: Path) -> list[str]:
        with (
            _programs(spark, tmp_path / "started.jfr") as programs,
            bare(spark, flow, folder) as query,
        ):
            topics.send(source, range(10))
            progress = query.folder.progress
            query.wait("a commit", lambda: progress.committed_epoch() is not None)
        # Other threads of this JVM may start programs of their own.
        return [program for program in programs if str(folder) in program]

    assert started(tmp_path / "ours") == []
    with sparks_files(spark):
        assert started(tmp_path / "sparks")


@contextmanager
def _programs(spark: SparkSession, recorded: Path) -> Iterator[list[str]]:
    """The command lines that the JVM starts meanwhile, by its Flight Recorder: read afterwards."""
    programs: list[str] = []
    jvm: Any = spark._jvm
    recording = jvm.jdk.jfr.Recording()
    recording.enable("jdk.ProcessStart")
    recording.start()
    try:
        yield programs
        recording.stop()
        file = jvm.java.io.File(str(recorded)).toPath()
        recording.dump(file)
        events = jvm.jdk.jfr.consumer.RecordingFile.readAllEvents(file)
        programs += [event.getString("command") for event in events]
    finally:
        recording.close()
