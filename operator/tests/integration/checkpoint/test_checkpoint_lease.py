"""Drivers as processes that want to write one checkpoint in an object store."""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import psutil
import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.driver.checkpoint.storage.lease import ABANDONED_SECONDS
from penstock.driver.main import RESTART
from testkit.driver.driver_process import Process, driver, traffic
from testkit.kafka.broker import free_ports
from testkit.kafka.topics import Topics, number_flow
from testkit.object_store.proxy import S3Proxy
from testkit.object_store.server import ObjectStore
from testkit.object_store.streams import CheckpointBucket
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import ASYNC, CONTINUOUS, MICRO_BATCH, REAL_TIME
from testkit.wait import wait_for

MODES = [
    CONTINUOUS,
    *(pytest.param(mode, marks=pytest.mark.full) for mode in (MICRO_BATCH, REAL_TIME, ASYNC)),
]


def in_pod(
    uid: str, flow: ContinuousStream, folder: Path, class_path: str
) -> AbstractContextManager[Process]:
    return driver(flow, folder, class_path, environment={naming.ENV_POD_UID: uid})


def reason(process: Process) -> str:
    """Why the driver has ended."""
    return process.termination_log.read_text() if process.termination_log.exists() else ""


@pytest.mark.proves(25)
@pytest.mark.timeout(300)
def test_the_next_driver_starts_at_once_after_a_clean_stop_and_in_the_same_pod(
    topics: Topics, class_path: str, bucket: CheckpointBucket, tmp_path: Path
) -> None:
    """One in another pod waits after a crash, until the lease cannot be anyone else's."""
    source, sink = topics.make(), topics.make()
    flow = bucket.stream(number_flow(topics, source, sink))
    with ExitStack() as sending:
        sent = sending.enter_context(traffic(topics, source))
        with in_pod("a", flow, tmp_path, class_path) as process:
            process.wait_ready()
            assert process.stop() == 0
            assert process.warnings() == []
        for uid in ("b", "b"):
            with in_pod(uid, flow, tmp_path, class_path) as process:
                process.wait_ready()
                assert "the driver waits" not in process.log.read_text()
                process.kill()
        began = time.monotonic()
        with in_pod("c", flow, tmp_path, class_path) as process:
            process.wait_ready()
            assert time.monotonic() - began > ABANDONED_SECONDS
            sending.close()
            topics.wait_received(sink, range(sent[0]))
            assert process.stop() == 0


@pytest.mark.proves(25)
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: next(iter(mode)))
def test_one_that_was_frozen_ends_when_it_wakes_up(
    mode: dict[str, object],
    topics: Topics,
    class_path: str,
    bucket: CheckpointBucket,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Every record is in Kafka; and no commit is about other offsets than those that are there."""
    source, sink = topics.make(), topics.make()
    flow = bucket.stream(number_flow(topics, source, sink, mode))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for each in ("a", "b"):
        (tmp_path / each / "secrets").symlink_to(tmp_path / "secrets")
    with ExitStack() as sending, in_pod("a", flow, tmp_path / "a", class_path) as frozen:
        sent = sending.enter_context(traffic(topics, source))
        frozen.wait_ready()
        pids = [frozen.process.pid, *frozen.children]
        jvm = psutil.Process(frozen.jvm)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        with in_pod("b", flow, tmp_path / "b", class_path) as next_one:
            next_one.wait_ready()
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            woke = time.monotonic()
            wait_for("the JVM of the old driver gone", lambda: not _runs(jvm), 15)
            record_figure("seconds until the old driver's JVM has ended", time.monotonic() - woke)
            assert frozen.process.wait(30) == RESTART
            with in_pod("a", flow, tmp_path / "a", class_path) as again:
                assert again.process.wait(120) == RESTART
                assert '"CheckpointInUse","message":"Another driver of pod b' in reason(again)
            sending.close()
            received = topics.wait_received(sink, range(sent[0]))
            assert next_one.warnings() == []
            assert next_one.stop() == 0
    record_figure("records twice", sum(received.values()) - len(received))


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.proves("failures.md#the-object-store-does-not-answer")
@pytest.mark.timeout(300)
def test_a_store_that_is_away_for_long_ends_the_driver_and_starts_it_again(
    topics: Topics, class_path: str, bucket: CheckpointBucket, proxy: S3Proxy, tmp_path: Path
) -> None:
    """Without its lease it may not go on. It waits, and runs on by itself with nothing lost."""
    source, sink = topics.make(), topics.make()
    flow = bucket.stream(number_flow(topics, source, sink))
    with ExitStack() as sending, ExitStack() as outage:
        sent = sending.enter_context(traffic(topics, source))
        with in_pod("a", flow, tmp_path, class_path) as process:
            process.wait_ready()
            outage.enter_context(proxy.unreachable())
            assert process.process.wait(60) == RESTART
            assert "ObjectStoreNotAccessible" in reason(process)
        with in_pod("a", flow, tmp_path, class_path) as process:
            wait_for("waits", lambda: "the driver waits" in process.log.read_text(), 60)
            outage.close()
            process.wait_ready()
            sending.close()
            topics.wait_received(sink, range(sent[0]))
            assert process.stop() == 0


@pytest.mark.proves(25)
def test_what_is_wrong_with_the_store_is_said_at_once_and_waited_for(
    topics: Topics, class_path: str, s3: ObjectStore, proxy: S3Proxy, tmp_path: Path
) -> None:
    """A missing key, a missing bucket, a store that ignores conditions: one process sees it all."""
    made = CheckpointBucket.made(s3, tmp_path, proxy)
    bucket = CheckpointBucket(s3, f"{made.name}-later", proxy.endpoint, tmp_path)
    source, sink = topics.make(), topics.make()
    topics.send(source, range(10))
    flow = bucket.stream(number_flow(topics, source, sink))
    (key,) = (tmp_path / "secrets").rglob("key")
    content = key.read_text()
    key.unlink()
    with ExitStack() as conditions, in_pod("a", flow, tmp_path, class_path) as process:

        def wait_said(reason: str) -> None:
            wait_for(reason, lambda: f'"reason": "{reason}"' in process.log.read_text(), 60)

        conditions.enter_context(proxy.ignoring_conditions())
        wait_said("SecretMissing")
        key.write_text(content)
        wait_said("BucketNotFound")
        s3.make_bucket(bucket.name)
        wait_said("ObjectStoreUnsafe")
        assert bucket.files(flow) == []
        assert process.probe("/livez") == 200
        conditions.close()
        topics.wait_received(sink, range(10))
        assert process.stop() == 0


@pytest.mark.proves("failures.md#the-object-store-does-not-answer")
@pytest.mark.timeout(300)
def test_one_request_without_an_answer_ends_no_driver(
    topics: Topics, class_path: str, bucket: CheckpointBucket, proxy: S3Proxy, tmp_path: Path
) -> None:
    """Another renewal is made beside it; nor does it matter if the lease is deleted by hand."""
    flow = bucket.stream(number_flow(topics, topics.make(), topics.make()))
    owner = f"prefix/{flow.metadata.namespace}/{flow.metadata.name}/penstock/owner"
    with in_pod("a", flow, tmp_path, class_path) as process:
        process.wait_ready()
        with proxy.hold("penstock/owner") as held:
            assert held.arrived.wait(30)
            time.sleep(25)
            assert process.process.poll() is None
        bucket.store.delete(bucket.name, owner)
        wait_for("made again", lambda: owner in bucket.store.names(bucket.name), 30)
        assert process.probe("/readyz") == 200
        assert process.stop() == 0


def test_a_stop_before_a_query_runs_lets_the_next_driver_begin_at_once(
    topics: Topics, class_path: str, bucket: CheckpointBucket, tmp_path: Path
) -> None:
    """In a step that takes long, such as one that waits for a broker."""
    flow = bucket.stream(number_flow(topics, topics.make(), topics.make()))
    (port,) = free_ports(1)
    away = f"127.0.0.1:{port}"
    kafka = flow.spec.source.kafka
    assert kafka is not None
    source = flow.spec.source.model_copy(
        update={"kafka": kafka.model_copy(update={"bootstrap_servers": away})}
    )
    waiting = flow.model_copy(update={"spec": flow.spec.model_copy(update={"source": source})})
    with in_pod("a", waiting, tmp_path, class_path) as process:
        wait_for("discovers", lambda: '"discover"' in process.log.read_text(), 60)
        assert process.stop() == 0
    with in_pod("b", flow, tmp_path, class_path) as process:
        process.wait_ready()
        assert "the driver waits" not in process.log.read_text()
