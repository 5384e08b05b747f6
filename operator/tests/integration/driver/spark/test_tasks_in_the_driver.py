"""A small stream in a pod: its tasks run in the driver's JVM, until there are too many for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.contract import sizing
from penstock.contract.driver_report import QueryState
from penstock.contract.naming import stream_labels
from penstock.driver.failures import QUERY_NOT_STOPPED, DriverError
from penstock.driver.jvm import Jvm, fast_start_options
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.followed_stream import FollowedStream, LiveFields, StreamDocument
from penstock.driver.spark import session
from testkit.driver.fake_kubelet import POLLING, Kubelet, driver_pod
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH, REAL_TIME
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(300)


@pytest.mark.proves(15, 16, "failures.md#partitions-are-added")
@pytest.mark.parametrize("trigger", [CONTINUOUS, REAL_TIME, MICRO_BATCH])
def test_a_stream_that_outgrows_the_driver_gets_executors_and_loses_nothing(
    trigger: dict[str, Any],
    kubelet: Kubelet,
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The spec leaves it to Penstock. An executor of an earlier pod is removed before."""
    monkeypatch.setattr(sizing, "MOST_SLOTS_IN_DRIVER", 2)
    forced = "_FORCED_WITH_EXECUTORS"  # in sparkConf it would ask for executors
    monkeypatch.setattr(session, forced, {**getattr(session, forced), **POLLING})
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    kubelet.add("numbers-exec-1", stream_labels("numbers", "executor"))
    flow = number_flow(topics, source, sink, trigger)
    environment = driver_pod(kubelet, tmp_path)
    with running(flow, jvm, environment, api=Api(kubelet.url, "payments")) as driver:
        topics.wait_received(sink, range(100))
        report = driver.wait_ready()
        assert (report.registered_cores, report.cores) == (2, 2)
        assert (report.registered_executors, report.executors) == (0, 0)
        assert list(kubelet.pods) == ["numbers-driver-0"]
        # Nothing of the cluster is needed but the pod itself: no Secret, no other pod.
        assert (kubelet.made, kubelet.secrets) == ([], {})
        topics.grow(source, 3)
        driver.wait(
            "executors",
            lambda report: report.registered_executors == 3 and report.state is QueryState.RUNNING,
        )
        topics.send(source, range(100, 200), partition=2)
        received = topics.wait_received(sink, range(200))
        driver.wait_ready()
        assert len(kubelet.made) == 3
    if trigger is CONTINUOUS:
        assert max(received.values()) == 1
    wait_for("no executor", lambda: not kubelet.executors())


ENDLESS = """
SELECT key, CASE WHEN text = '13' AND concat(repeat('xx', 40), text) RLIKE '^((x|xx)+)+y$'
    THEN 'never' ELSE text END AS value
FROM (SELECT key, CAST(value AS STRING) AS text FROM source)
"""


class Edited(FollowedStream):
    """A stream whose edit the operator applies when the test says so."""

    edit: StreamDocument | None = None

    @property
    def next_document(self) -> StreamDocument | None:
        return self.edit


@pytest.fixture
def doomed_jvm(class_path: str) -> Iterator[Jvm]:
    """One of the test's own: a thread is left in it that only its end stops."""
    running = Jvm.launch(1024, class_path, "127.0.0.1", fast_start_options([], 1024, cores=0))
    yield running
    running.kill()


@pytest.mark.parametrize(
    "trigger", [CONTINUOUS, MICRO_BATCH, pytest.param(REAL_TIME, marks=pytest.mark.full)]
)
def test_a_task_that_does_not_end_costs_its_jvm(
    trigger: dict[str, Any],
    kubelet: Kubelet,
    topics: Topics,
    doomed_jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """An edit takes the place of a query whose function computes for ever, and Spark leaves its
    thread alone. It would go on to write, and to take a core, beside the edited query.
    """
    source, sink = topics.make(1), topics.make()
    flow = number_flow(topics, source, sink, trigger, transform={"sql": ENDLESS})
    followed = Edited(LiveFields.of(flow.spec))
    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    with running(flow, doomed_jvm, where, api=api, followed=followed) as driver:
        topics.send(source, range(10))
        topics.wait_received(sink, range(10))
        topics.send(source, range(13, 14))
        time.sleep(5)  # the task has it by then
        began = time.monotonic()
        followed.edit = StreamDocument(flow.to_yaml())
        wait_for("the end of the loop", lambda: not driver.thread.is_alive())
        record_figure("seconds until the driver gives up its JVM", time.monotonic() - began)
        error, driver.error = driver.error, None
    assert isinstance(error, DriverError)
    assert error.failure.reason == QUERY_NOT_STOPPED
    assert error.failure.message.startswith("A task of the query does not end")
