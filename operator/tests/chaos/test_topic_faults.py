"""Topics that are deleted, made anew, cut short, grown or missing: nothing of it is silent.

Local mode, one JVM. What happens is in docs/failures.md, row by row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import source_monitor as watch
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.driver_process import traffic
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH, REAL_TIME

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

MODES = [pytest.param(CONTINUOUS, id="continuous"), pytest.param(MICRO_BATCH, id="micro-batch")]
EAGER = RestartPolicy(1.0, backoff_base=0.1, recheck_interval=0.5)
"""Looks again soon at what may be cured."""


@pytest.fixture
def eager_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is looked at every half second instead of every ten."""
    monkeypatch.setattr(watch, "POLL_INTERVAL_SECONDS", 0.5)
    monkeypatch.setattr(watch, "_RETRY_INTERVAL_SECONDS", 0.5)


def refused(driver: InProcessDriver, reason: str) -> DriverReport:
    """The report, once the stream has stopped for that reason and holds nothing."""
    report = driver.wait(
        f"failed for {reason}",
        lambda report: (
            report.state is QueryState.FAILED
            and report.last_failure is not None
            and report.last_failure.reason == reason
        ),
    )
    driver.wait("released", lambda report: not driver.runtime.has_session)
    assert not driver.health.ready
    return report


def read_hundred(topics: Topics, it: ContinuousStream, jvm: Jvm, folder: Path, sink: str) -> None:
    """A first life that has read a hundred records and committed them all."""
    with running(it, jvm, folder) as driver:
        topics.wait_received(sink, range(100))
        driver.wait("no lag", lambda report: report.committed and report.lag == 0)


@pytest.mark.parametrize("trigger", MODES)
def test_retention_that_overtakes_is_told_in_records(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    read_hundred(topics, number_flow(topics, source, sink, trigger), jvm, tmp_path, sink)
    committed = CheckpointFolder(tmp_path).progress.committed_offsets()
    assert committed is not None
    for partition in range(2):
        topics.send(source, range(100 + 50 * partition, 150 + 50 * partition), partition=partition)
    topics.delete_before(source, {p: offset + 10 for p, offset in committed[source].items()})
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
        failure = refused(driver, "DataLoss").last_failure
        assert failure is not None
        assert f"{source} 0: 10 records" in failure.message
        assert "failOnDataLoss" in failure.message
    there = {*range(100), *range(110, 150), *range(160, 200)}
    accepting = number_flow(topics, source, sink, trigger, of_source={"failOnDataLoss": False})
    with running(accepting, jvm, tmp_path) as driver:
        topics.wait_received(sink, there)
        report = driver.wait_ready()
        assert report.state is QueryState.RUNNING
        assert report.last_failure is not None
        assert report.last_failure.message.startswith("20 records were gone")
        assert not report.last_failure.permanent
    assert set(topics.received(sink)) == there


@pytest.mark.parametrize("trigger", MODES)
def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Left alone, Spark skips as many records of the new one as it has read of the old one."""
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    read_hundred(topics, number_flow(topics, source, sink, trigger), jvm, tmp_path, sink)
    topics.delete(source)
    topics.make(2, source)
    topics.send(source, range(100, 400))
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
        failure = refused(driver, "DataLoss").last_failure
        assert failure is not None
        assert "made again" in failure.message
    accepting = number_flow(topics, source, sink, trigger, of_source={"failOnDataLoss": False})
    with running(accepting, jvm, tmp_path):
        received = topics.wait_received(sink, range(400))
    assert set(received) == set(range(400))
    # Told once: the checkpoint now speaks of the new topic.
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
        assert driver.wait_ready().last_failure is None


@pytest.mark.usefixtures("eager_watch")
@pytest.mark.parametrize("accepts", [True, False], ids=["accepted", "refused"])
@pytest.mark.parametrize("trigger", MODES)
def test_a_topic_made_anew_while_the_query_runs(
    trigger: dict[str, Any], accepts: bool, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Left alone, the continuous engine commits on as if there was nothing to read."""
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    it = number_flow(topics, source, sink, trigger, of_source={"failOnDataLoss": not accepts})
    with running(it, jvm, tmp_path, EAGER) as driver:
        topics.wait_received(sink, range(100))
        driver.wait("no lag", lambda report: report.committed and report.lag == 0)
        topics.delete(source)
        refused(driver, "TopicMissing")
        topics.make(2, source)
        topics.send(source, range(100, 400))
        if accepts:
            topics.wait_received(sink, range(400))
            failure = driver.wait_ready().last_failure
        else:
            failure = refused(driver, "DataLoss").last_failure
        assert failure is not None
        assert failure.reason == "DataLoss"
        assert "made again" in failure.message


@pytest.mark.usefixtures("eager_watch")
@pytest.mark.parametrize("trigger", MODES)
def test_partitions_grow_under_traffic(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(2), topics.make()
    new = range(1_000_000, 1_000_200)
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
        with traffic(topics, source) as sent:
            assert driver.wait_ready().cores == 2
            topics.grow(source, 6)
            for partition in range(2, 6):
                topics.send(source, new[partition - 2 :: 4], partition=partition)
            driver.wait(
                "six cores and a commit",
                lambda report: report.registered_cores == 6 and report.committed,
            )
        received = topics.wait_received(sink, [*range(sent[0]), *new])
    print(f"{len(received)} sent, {sum(received.values()) - len(received)} duplicates")


@pytest.mark.parametrize("trigger", [*MODES, pytest.param(REAL_TIME, id="real-time")])
def test_a_missing_output_topic_is_named_and_waited_for(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Left alone, the real-time engine hangs, and the others say that something timed out."""
    source, sink = topics.make(), topics.make()
    topics.delete(sink)
    topics.send(source, range(10))
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path, EAGER) as driver:
        failure = refused(driver, "TopicMissing").last_failure
        assert failure is not None
        assert failure.permanent
        assert f"the output topic {sink} does not exist" in failure.message
        topics.make(name=sink)
        topics.wait_received(sink, range(10))


def test_an_output_topic_that_is_deleted_is_named(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(), topics.make()
    with running(number_flow(topics, source, sink, CONTINUOUS), jvm, tmp_path, EAGER) as driver:
        driver.wait_ready()
        topics.delete(sink)
        topics.send(source, range(10))
        refused(driver, "TopicMissing")
        topics.make(name=sink)
        topics.wait_received(sink, range(10))
