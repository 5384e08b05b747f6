"""A small stream in a pod: its tasks run in the driver's JVM, until there are too many for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.contract import sizing
from penstock.contract.driver_report import QueryState
from penstock.contract.naming import stream_labels
from penstock.driver.failures import QUERY_NOT_STOPPED
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import Api
from penstock.driver.loop import DriverMustExit
from penstock.driver.spark import session
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.fake_kubelet import POLLING, Kubelet, driver_pod
from testkit.driver.in_process_driver import running, second_jvm
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


def _computes(jvm: Jvm) -> bool:
    """Whether a task's thread is in a regular expression."""
    stacks = jvm.gateway.jvm.java.lang.Thread.getAllStackTraces()
    return any(
        str(thread.getName()).startswith("Executor task")
        and len(stacks[thread]) > 0
        and str(stacks[thread][0].getClassName()).startswith("java.util.regex")
        for thread in stacks
    )


@pytest.fixture
def doomed_jvm(class_path: str) -> Iterator[Jvm]:
    """A thread is left in it that only its end stops."""
    with second_jvm(class_path) as jvm:
        yield jvm


@pytest.mark.parametrize(
    ("trigger", "keeps_session"),
    [
        pytest.param(CONTINUOUS, True, id="continuous"),
        pytest.param(MICRO_BATCH, True, id="micro-batch", marks=pytest.mark.full),
        pytest.param(CONTINUOUS, False, id="continuous, next session"),
        pytest.param(MICRO_BATCH, False, id="micro-batch, next session", marks=pytest.mark.full),
        pytest.param(REAL_TIME, True, id="real-time", marks=pytest.mark.full),
    ],
)
def test_a_task_that_does_not_end_costs_its_jvm(
    keeps_session: bool,
    trigger: dict[str, Any],
    kubelet: Kubelet,
    topics: Topics,
    doomed_jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """A function computes for ever, and Spark leaves its thread alone. It would go on to write, and
    to take a core, beside the next query.
    """
    source, sink = topics.make(1), topics.make()
    flow = number_flow(topics, source, sink, trigger, transform={"sql": ENDLESS})
    policy = replace(
        RestartPolicy.from_spec(flow.spec), new_session_after=5 if keeps_session else 1
    )
    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    with running(flow, doomed_jvm, where, policy, api=api) as driver:
        topics.send(source, range(10))
        topics.wait_received(sink, range(10))
        topics.send(source, range(13, 14))
        wait_for("the task computes", lambda: _computes(doomed_jvm))
        assert driver.runtime.session is not None
        driver.runtime.session.sparkContext.cancelAllJobs()
        began = time.monotonic()
        wait_for("the end of the loop", lambda: not driver.thread.is_alive())
        record_figure("seconds until the driver gives up its JVM", time.monotonic() - began)
        error, driver.error = driver.error, None
    assert isinstance(error, DriverMustExit)
    assert error.failure.reason == QUERY_NOT_STOPPED
    assert error.failure.message.startswith("A task of the query does not end")


SLOW = """
SELECT key, CASE WHEN java_method('java.lang.Thread', 'sleep',
    CAST(20 + length(value) * 0 AS BIGINT))
    = 'x' THEN NULL ELSE value END AS value FROM source
"""


@pytest.mark.parametrize("trigger", [MICRO_BATCH, {"realTime": {"batchDuration": "10m"}}])
def test_a_long_task_shows_that_it_works(
    trigger: dict[str, Any], kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """It would be taken for a stuck one, and its records written again. In one JVM Spark counts its
    rows when it ends.
    """
    source, sink = topics.make(1), topics.make()
    flow = number_flow(topics, source, sink, trigger, transform={"sql": SLOW})
    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    with running(flow, jvm, where, api=api) as driver:
        driver.wait_ready()
        topics.send(source, range(500))
        topics.wait_received(sink, range(50))
        rows = set[int]()
        for _ in look_often(30.0):
            work = driver.runtime.observe(frozenset()).activity.work
            assert work is not None
            rows.add(work[0])
            if len(rows) > 3:
                break
        assert len(rows) > 3
        topics.wait_received(sink, range(500))
        driver.wait("all handled", lambda report: report.lag == 0)
        assert driver.last.query_restarts == 0


def look_often(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.2)
