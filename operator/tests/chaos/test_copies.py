"""How often a record comes while nothing can be committed, whatever holds the commits back.

The bound is that of docs/failures.md, "Nothing can be committed".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.jvm import Jvm
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.checkpoints import folder_at
from testkit.driver.driver_process import driver, traffic
from testkit.driver.in_process_driver import running
from testkit.kafka.brokers import two_brokers
from testkit.kafka.topics import Topics, number_flow, total
from testkit.plugins.figures import RecordFigure
from testkit.read_only import read_only
from testkit.small_disk import SmallDisk, small_disk
from testkit.streams.streams import (
    CONTINUOUS,
    EACH_MODE,
    MICRO_BATCH,
    REAL_TIME,
    kafka_source,
    stream,
)
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(400)

_FAULT_SECONDS = 40.0
_HELD = "penstock.test.held"
"""A property of the JVM: how long a task sleeps over the record -1, in milliseconds."""
_TRANSFORM = {
    "sql": "SELECT value, CASE WHEN CAST(value AS STRING) = '-1' THEN java_method("
    "'java.lang.Thread', 'sleep', CAST(java_method('java.lang.Long', 'getLong', "
    f"'{_HELD}') AS BIGINT)) END AS key FROM source"
}


def most_copies(seconds: float, first_run: float) -> float:
    """How often a record may come within so many seconds without a commit.

    Two more than there are runs that write it.
    """
    growing = log(max(1.0, min(seconds, 1200.0) / first_run), 1.5)
    return 2 + growing + max(0.0, seconds - 1200.0) / 600.0 + 2


@dataclass(frozen=True)
class Query:
    """What is in a query's way, to be broken."""

    topics: Topics
    source: str
    disk: SmallDisk
    jvm: Jvm

    @property
    def logs(self) -> list[Path]:
        return [self.disk.path / "checkpoint" / log for log in ("offsets", "commits")]


@contextmanager
def logs_read_only(query: Query) -> Iterator[None]:
    with read_only(*query.logs):
        yield


@contextmanager
def volume_full(query: Query) -> Iterator[None]:
    query.disk.fill()
    yield
    query.disk.free()


@contextmanager
def task_hangs(query: Query) -> Iterator[None]:
    """Over a record of one partition; those of the others are written each time."""
    system = query.jvm.gateway.jvm.java.lang.System
    system.setProperty(_HELD, "1000000")
    query.topics.send(query.source, range(-1, 0), partition=1)
    yield
    system.setProperty(_HELD, "0")


Cause = Callable[[Query], AbstractContextManager[None]]


@pytest.mark.proves(2)
@pytest.mark.full
@pytest.mark.parametrize("trigger", EACH_MODE)
@pytest.mark.parametrize("cause", [logs_read_only, volume_full, task_hangs])
def test_what_cannot_commit_writes_few_copies(
    cause: Cause,
    trigger: dict[str, Any],
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = topics.make(2), topics.make()
    flow = number_flow(topics, source, sink, trigger, transform=_TRANSFORM)
    # A task that hangs is missed sooner, so there are more attempts; their pauses are as ever.
    policy = replace(RestartPolicy.from_spec(flow.spec), min_patience=5.0, backoff_base=0.1)
    with small_disk(tmp_path / "volume") as disk:
        query = Query(topics, source, disk, jvm)
        with (
            running(flow, jvm, disk.path / "checkpoint", policy) as driver,
            traffic(topics, source, every=0.5) as sent,
        ):
            driver.wait_ready()
            driver.wait("commits", lambda _: total(driver.runtime.progress.committed_offsets()) > 0)
            restarts, began, first_run = driver.last.query_restarts, time.monotonic(), 0.0
            with cause(query):
                while time.monotonic() - began < _FAULT_SECONDS:
                    time.sleep(0.1)
                    if not first_run and driver.last.query_restarts > restarts:
                        first_run = time.monotonic() - began
            topics.wait_received(sink, range(sent[0]))
            driver.wait_ready()
            lasted = time.monotonic() - began
    received = topics.received(sink)
    copies, allowed = max(received.values()), most_copies(lasted, first_run or lasted)
    record_figure(f"copies of a record in {lasted:.0f} s", copies)
    record_figure("allowed", round(allowed, 1))
    assert copies <= allowed


_BACKLOG = 60_000
# A task of one of the two partitions takes a millisecond for a record at least.
_SLOW = {
    "sql": "SELECT key, CASE WHEN java_method('java.lang.Thread', 'sleep', "
    "CAST(1 + length(value) * 0 AS BIGINT)) = 'x' THEN NULL ELSE value END AS value FROM source"
}


@pytest.mark.proves(2)
@pytest.mark.parametrize("is_there", [True, False], ids=["at the start", "while it runs"])
def test_a_backlog_in_real_time_is_committed_each_second(
    is_there: bool,
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Of a backlog that takes half a minute at least, two batches are committed on the way, each
    after a second or what the end of some takes. Without that the batch of a minute has all of it.
    """
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(_BACKLOG if is_there else 1))
    trigger = {"realTime": {"batchDuration": "1m"}}
    flow = number_flow(topics, source, sink, trigger, transform=_SLOW)
    fast = number_flow(topics, source, sink, trigger)
    folder = folder_at(tmp_path / "checkpoint")
    with driver(flow, tmp_path, class_path) as process:
        wait_for("commits", lambda: (folder.progress.committed_epoch() or 0) >= 1)
        if not is_there:
            time.sleep(3)  # into the batch of a minute
            topics.send(source, range(1, _BACKLOG))
        epoch = folder.progress.committed_epoch() or 0
        wait_for("two batches", lambda: (folder.progress.committed_epoch() or 0) >= epoch + 2)
        written = len(topics.received(sink))
        assert written < _BACKLOG
        process.kill(lambda: len(topics.received(sink)) > written + 500)  # into the next one
        lost = len(topics.received(sink)) - total(folder.progress.committed_offsets())
    with driver(fast, tmp_path, class_path) as process:
        topics.wait_received(sink, range(_BACKLOG))
        assert process.stop() == 0
    received = topics.received(sink)
    copies = sum(received.values()) - len(received)
    record_figure("copies", copies)
    assert set(received) == set(range(_BACKLOG))
    assert copies <= lost


@pytest.mark.proves(2)
@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param(CONTINUOUS, id="continuous"),
        pytest.param(MICRO_BATCH, id="micro-batch", marks=pytest.mark.full),
        pytest.param(REAL_TIME, id="real-time", marks=pytest.mark.full),
    ],
)
def test_a_topic_without_in_sync_replicas_multiplies_no_records_of_the_others(
    trigger: dict[str, Any], jvm: Jvm, tmp_path: Path, record_figure: RecordFigure
) -> None:
    """The continuous engine still commits an empty epoch at each start."""
    with two_brokers() as (first, second):
        topics = Topics(f"{first.bootstrap},{second.bootstrap}")
        source, healthy = topics.make(2, replicas=2), topics.make(1, replicas=2)
        stuck = topics.make(1, replicas=2, config={"min.insync.replicas": "2"})
        route = f"CASE WHEN partition = 0 THEN '{stuck}' ELSE '{healthy}' END AS topic"
        gives_up = {"kafka.delivery.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
        read = {
            "topics": [source],
            "startingOffsets": "earliest",
            # The batch engine asks a broker that has ended until the second, 60 s by default.
            "options": {"kafka.request.timeout.ms": "4000", "kafka.default.api.timeout.ms": "5000"},
        }
        flow = stream(
            kafka_source(topics.bootstrap, **read),
            {"kafka": {"bootstrapServers": topics.bootstrap, "options": gives_up}},
            trigger=trigger,
            transform={"sql": f"SELECT key, value, {route} FROM source"},
        )
        # Without a long back-off, only the pause holds attempts apart.
        policy = replace(RestartPolicy.from_spec(flow.spec), backoff_base=0.1, backoff_cap=0.5)
        with running(flow, jvm, tmp_path, policy) as driver:
            driver.wait_ready()
            second.kill()
            wait_for("the move", lambda: topics.leaders(source) == topics.leaders(healthy) == {1})
            topics.send(source, range(20), partition=1)
            topics.wait_received(healthy, range(20))
            driver.wait("a commit", lambda report: report.lag == 0)
            began, restarts = time.monotonic(), driver.last.query_restarts
            topics.send(source, range(20, 40), partition=0)
            topics.send(source, range(40, 60), partition=1)
            driver.wait("a failure", lambda report: report.query_restarts > restarts)
            failed = time.monotonic() - began
            driver.wait("two more", lambda report: report.query_restarts >= restarts + 2)
            time.sleep(max(0.0, 40 - (time.monotonic() - began)))
            lasted, copies = time.monotonic() - began, max(topics.received(healthy).values())
            record_figure(f"copies of a record in {lasted:.0f} s", copies)
            record_figure("allowed", round(most_copies(lasted, failed), 1))
            assert copies <= most_copies(lasted, failed)
            second.start()
            topics.wait_received(stuck, range(20, 40))
            driver.wait_ready()
