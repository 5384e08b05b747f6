"""Repairs of a checkpoint in an object store: they leave what they leave on a volume."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.storage.access import WriteRight, checkpoints_of
from penstock.driver.failures import DriverError, Failure
from penstock.driver.jvm import Jvm
from testkit.driver.checkpoint_damage import TABLE, Engine, undamaged
from testkit.driver.checkpoints import (
    folder_at,
    read,
    write,
)
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.object_store.server import ObjectStore
from testkit.object_store.streams import CheckpointBucket
from testkit.streams.streams import (
    ASYNC,
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

NEWEST = 7
EVERY_CHANGE = ("continuous",)
TRIGGERS: dict[Engine, dict[str, object]] = {
    "continuous": CONTINUOUS,
    "microBatch": MICRO_BATCH,
    "async": ASYNC,
    "realTime": REAL_TIME,
    "parquet": MICRO_BATCH,
    "twoReads": MICRO_BATCH,
}


def repaired(folder: CheckpointFolder, flow: ContinuousStream) -> tuple[object, ...] | Failure:
    """The epoch and the repairs; or why it is refused."""
    try:
        plan = folder.repair(flow.spec)
    except DriverError as error:
        return error.failure
    return (plan.epoch, *plan.repairs)


@pytest.mark.proves(7)
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(engine, marks=[] if engine in EVERY_CHANGE else pytest.mark.full)
        for engine in TRIGGERS
    ],
)
def test_every_damage_is_repaired_as_on_a_volume(
    engine: Engine, jvm: Jvm, s3: ObjectStore, tmp_path: Path
) -> None:
    """Each in a generation of its own: the same files in the end, or the same reason."""
    bucket = CheckpointBucket.made(s3, tmp_path)  # some thousand requests, so without the proxy
    sink = {"custom": {"format": "parquet"}} if engine == "parquet" else kafka_sink()
    flow = bucket.stream(stream(kafka_source(), sink, trigger=TRIGGERS[engine]))
    environment = bucket.environment()
    # A driver takes its lease before it repairs anything: the first requests of a JVM load S3A's
    # classes, which on a busy machine takes longer than a probe waits for an answer.
    right = WriteRight(flow, environment)
    assert right.acquire_in_store(jvm, threading.Event(), lambda _: None)
    right.release_in_store()
    checkpoints = checkpoints_of(flow, environment, jvm)
    whole = undamaged(engine, range(3, NEWEST + 1))
    for number, damage in enumerate(TABLE):
        files = damage.done_to(whole, NEWEST)
        on_volume = tmp_path / damage.name
        write(files, on_volume)
        put(files, bucket, flow, number)
        in_store = CheckpointFolder(checkpoints.generation(number))
        wanted = repaired(folder_at(on_volume), flow)
        assert repaired(in_store, flow) == wanted, damage.name
        assert get(bucket, flow, number) == read(on_volume), damage.name


def put(files: Files, bucket: CheckpointBucket, flow: ContinuousStream, generation: int) -> None:
    for path, content in files.items():
        bucket.store.write(bucket.name, bucket.prefix(flow, generation) + path, content)


def get(bucket: CheckpointBucket, flow: ContinuousStream, generation: int) -> dict[str, bytes]:
    """All files of Spark."""
    prefix = bucket.prefix(flow, generation)
    return {
        path: bucket.store.read(bucket.name, prefix + path)
        for path in bucket.files(flow, generation)
        if not path.startswith("penstock/")
    }


@pytest.mark.proves(7)
@pytest.mark.parametrize("trigger", [CONTINUOUS, REAL_TIME], ids=["continuous", "real-time"])
def test_a_late_commit_of_an_earlier_driver_does_not_count(
    trigger: dict[str, object], topics: Topics, jvm: Jvm, bucket: CheckpointBucket
) -> None:
    """Its own offsets were removed by the repair of the next driver, whose offsets of this number
    are further ahead. By the commit, a start would skip what is between them.
    """
    source, sink = topics.make(1), topics.make(1)
    flow = bucket.stream(number_flow(topics, source, sink, trigger))
    topics.send(source, range(50))
    with running(flow, jvm, bucket.environment()) as driver:
        driver.wait_committed(50)
    newest = max(int(path.split("/")[1]) for path in bucket.files(flow) if "commits/" in path)
    key = f"{bucket.prefix(flow)}offsets/{newest}"
    content = bucket.store.read(bucket.name, key)
    topics.send(source, range(50, 100))
    ahead = content.replace(b'"0":50', b'"0":100')
    assert ahead != content
    bucket.store.write(bucket.name, key, ahead, {"penstock-nonce": "of the next driver"})
    with running(flow, jvm, bucket.environment()) as driver:
        topics.wait_received(sink, range(100))
        driver.wait_committed(100)
        assert driver.last.last_repair is not None
