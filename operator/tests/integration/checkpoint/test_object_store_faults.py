"""An object store that fails in every way while a query with its checkpoint there runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from penstock.contract.driver_report import DriverReport
from penstock.driver.jvm import Jvm
from testkit.driver.driver_process import traffic
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topics import Topics, number_flow
from testkit.object_store.proxy import S3Proxy
from testkit.object_store.server import ObjectStore
from testkit.object_store.streams import CheckpointBucket
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import ASYNC, CONTINUOUS, MICRO_BATCH, REAL_TIME

MODES = {
    "continuous": CONTINUOUS,
    "micro-batch": MICRO_BATCH,
    "real-time": REAL_TIME,
    "async": ASYNC,
}
# Requests to the store are the same in each mode; the moments of the writes differ.
EACH_MODE = [
    pytest.param(mode, marks=() if mode == "continuous" else pytest.mark.full) for mode in MODES
]


def away(proxy: S3Proxy) -> None:
    with proxy.unreachable():
        time.sleep(5)


def loses_answers(proxy: S3Proxy) -> None:
    """Each PUT has reached the store, so that a second one is refused."""
    proxy.lose_answers(2, "offsets/")
    time.sleep(2)
    proxy.lose_answers(2, "commits/")
    time.sleep(2)


def is_throttled(proxy: S3Proxy) -> None:
    proxy.slow_down(10)
    time.sleep(3)
    proxy.slow_down(20, one_in=5)
    time.sleep(5)
    proxy.slow_down(0)


def cuts_uploads(proxy: S3Proxy) -> None:
    proxy.cut_uploads(4)
    time.sleep(4)


FAULTS: list[Callable[[S3Proxy], None]] = [away, loses_answers, is_throttled, cuts_uploads]


@pytest.mark.proves("failures.md#the-object-store-does-not-answer")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_what_passes_is_waited_for(
    mode: str, topics: Topics, jvm: Jvm, bucket: CheckpointBucket, proxy: S3Proxy
) -> None:
    """No restart, nothing lost, and nothing twice."""
    source, sink = topics.make(), topics.make()
    flow = bucket.stream(number_flow(topics, source, sink, MODES[mode]))
    with traffic(topics, source) as sent, running(flow, jvm, bucket.environment()) as driver:
        driver.wait_ready()
        for fault in FAULTS:
            fault(proxy)
            at = driver.last.epoch or 0
            driver.wait(f"commits after {fault.__name__}", partial(_is_beyond, at + 2))
            assert driver.last.last_failure is None, fault.__name__
        assert driver.last.query_restarts == 0
    with running(flow, jvm, bucket.environment()):
        topics.wait_received(sink, range(sent[0]))


@pytest.mark.proves("failures.md#the-object-store-does-not-answer")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_a_key_that_may_not_write_is_said_within_seconds(
    mode: str,
    topics: Topics,
    jvm: Jvm,
    bucket: CheckpointBucket,
    proxy: S3Proxy,
    record_figure: RecordFigure,
) -> None:
    """And once it may, the stream goes on by itself."""
    source, sink = topics.make(), topics.make()
    flow = bucket.stream(number_flow(topics, source, sink, MODES[mode]))
    with (
        traffic(topics, source) as sent,
        running(flow, jvm, bucket.environment(), impatient(flow)) as driver,
    ):
        driver.wait_ready()
        driver.wait("commits", lambda report: (report.epoch or 0) > 1)
        began = time.monotonic()
        with proxy.read_only():
            report = driver.wait_failure("ObjectStoreDenied")
            record_figure(f"{mode}: seconds until it is said", time.monotonic() - began)
            assert report.last_failure is not None
            assert bucket.name in report.last_failure.message
            driver.wait("no query", lambda it: not it.query_runs)
        at = driver.last.epoch or 0
        driver.wait("commits again", partial(_is_beyond, at + 2))
    with running(flow, jvm, bucket.environment()):
        received = topics.wait_received(sink, range(sent[0]))
    record_figure(f"{mode}: copies", sum(received.values()) - len(received))


@pytest.mark.proves("failures.md#the-object-store-does-not-answer")
def test_a_bucket_that_does_not_exist_is_named(
    topics: Topics, jvm: Jvm, s3: ObjectStore, tmp_path: Path
) -> None:
    """Once it is there, the stream starts."""
    bucket = CheckpointBucket.made(s3, tmp_path)
    missing = CheckpointBucket(s3, f"{bucket.name}-not-yet", s3.endpoint, tmp_path)
    source, sink = topics.make(), topics.make()
    flow = missing.stream(number_flow(topics, source, sink))
    topics.send(source, range(10))
    with running(flow, jvm, missing.environment(), impatient(flow)) as driver:
        report = driver.wait_failure("BucketNotFound")
        assert report.last_failure is not None
        assert missing.name in report.last_failure.message
        s3.make_bucket(missing.name)
        topics.wait_received(sink, range(10))


@pytest.mark.proves(7)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_an_entry_that_another_one_has_written_loses_nothing(
    mode: str, topics: Topics, jvm: Jvm, bucket: CheckpointBucket
) -> None:
    """Offsets ahead of a query, as a driver leaves them that is gone: it restarts over them."""
    source, sink = topics.make(), topics.make()
    flow = bucket.stream(number_flow(topics, source, sink, MODES[mode]))
    with traffic(topics, source) as sent, running(flow, jvm, bucket.environment()) as driver:
        driver.wait("commits", lambda report: (report.epoch or 0) > 1)
        prefix = bucket.prefix(flow)
        newest = max(int(path.split("/")[1]) for path in bucket.files(flow) if "offsets/" in path)
        content = bucket.store.read(bucket.name, f"{prefix}offsets/{newest}")
        for ahead in range(3, 6):
            key = f"{prefix}offsets/{newest + ahead}"
            bucket.store.write(bucket.name, key, content, {"penstock-nonce": "foreign"})
        driver.wait("a restart", lambda report: report.query_restarts > 0)
        at = driver.last.epoch or 0
        driver.wait("commits beyond it", partial(_is_beyond, max(at, newest + 6) + 2))
    with running(flow, jvm, bucket.environment()):
        topics.wait_received(sink, range(sent[0]))


def _is_beyond(epoch: int, report: DriverReport) -> bool:
    return (report.epoch or 0) > epoch
