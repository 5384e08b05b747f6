"""Deleted, recreated, truncated, grown and missing topics are all reported.

In local mode, in one JVM. docs/failures.md describes each case.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import source_monitor as watch
from penstock.driver.kubernetes.api import Api
from penstock.driver.spark.application import SparkApplication
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.checkpoints import folder_at
from testkit.driver.driver_process import traffic
from testkit.driver.fake_kubelet import POLLING, Kubelet, driver_pod
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, MOSTLY_CONTINUOUS, REAL_TIME

pytestmark = pytest.mark.timeout(240)

ENGINES_AND_REAL_TIME = [
    *MOSTLY_CONTINUOUS,
    pytest.param(REAL_TIME, id="real-time", marks=pytest.mark.full),
]


def fast_recheck(flow: ContinuousStream) -> RestartPolicy:
    """Rechecks failures after half a second."""
    policy = RestartPolicy.from_spec(flow.spec)
    return replace(policy, backoff_base=0.1, recheck_interval=0.5)


@pytest.fixture
def fast_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is polled every half second instead of every ten seconds."""
    monkeypatch.setattr(watch, "POLL_INTERVAL_SECONDS", 0.5)
    monkeypatch.setattr(watch, "_RETRY_INTERVAL_SECONDS", 0.5)


def wait_refused(driver: InProcessDriver, reason: str) -> DriverReport:
    """Waits until the stream has failed for this reason and has stopped its session.

    A stream that has committed before is not Failed: it waits for its next attempt.
    """
    report = driver.wait(
        f"failed for {reason}",
        lambda report: (
            report.state in (QueryState.FAILED, QueryState.RESTARTING)
            and report.last_failure is not None
            and report.last_failure.reason == reason
        ),
    )
    driver.wait("released", lambda report: not driver.runtime.has_session)
    assert not driver.health.ready
    return report


def read_hundred(topics: Topics, it: ContinuousStream, jvm: Jvm, folder: Path, sink: str) -> None:
    """Runs a driver until it has read and committed a hundred records."""
    with running(it, jvm, folder) as driver:
        topics.wait_received(sink, range(100))
        driver.wait("no lag", lambda report: report.committed and report.lag == 0)


@pytest.mark.proves(3, "failures.md#retention-deleted-records-before-they-were-read")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_lost_records_are_counted(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    read_hundred(topics, number_flow(topics, source, sink, trigger), jvm, tmp_path, sink)
    committed = folder_at(tmp_path).progress.committed_offsets()
    assert committed is not None
    for partition in range(2):
        topics.send(source, range(100 + 50 * partition, 150 + 50 * partition), partition=partition)
    topics.delete_before(source, {p: offset + 10 for p, offset in committed[source].items()})
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
        failure = wait_refused(driver, "DataLoss").last_failure
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


@pytest.mark.proves(
    4,
    "failures.md#the-sources-topic-was-deleted-and-created-again",
    "failures.md#the-stream-is-moved-to-another-kafka-cluster",
)
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_a_recreated_topic_is_not_taken_for_the_old_one(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark itself skips as many records of the new topic as it has read of the old one."""
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    read_hundred(topics, number_flow(topics, source, sink, trigger), jvm, tmp_path, sink)
    topics.delete(source)
    topics.make(2, source)
    topics.send(source, range(100, 400))
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
        failure = wait_refused(driver, "DataLoss").last_failure
        assert failure is not None
        assert "created again" in failure.message
    accepting = number_flow(topics, source, sink, trigger, of_source={"failOnDataLoss": False})
    with running(accepting, jvm, tmp_path):
        received = topics.wait_received(sink, range(400))
    assert set(received) == set(range(400))
    # Reported once: the checkpoint now has the offsets of the new topic.
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
        assert driver.wait_ready().last_failure is None


@pytest.mark.proves("failures.md#an-edit-adds-or-removes-a-topic-or-a-partition")
@pytest.mark.parametrize("trigger", ENGINES_AND_REAL_TIME)
def test_an_edit_of_the_topics_loses_nothing(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark itself takes a topic that is not read any more, or whose first records are gone when
    it is read for the first time, for lost records."""
    first, second, sink = topics.make(2), topics.make(1), topics.make()
    topics.send(first, range(100))
    read_hundred(topics, number_flow(topics, first, sink, trigger), jvm, tmp_path, sink)
    topics.send(second, range(100, 200))
    topics.delete_before(second, {0: 50})

    def read(*names: str, arrives: range) -> None:
        edited = number_flow(topics, first, sink, trigger, of_source={"topics": list(names)})
        with running(edited, jvm, tmp_path) as driver:
            topics.wait_received(sink, arrives)
            report = driver.wait("no lag", lambda report: report.committed and report.lag == 0)
            assert (report.last_failure, report.query_restarts) == (None, 0)

    read(first, second, arrives=range(150, 200))
    topics.send(first, range(200, 300))
    topics.send(second, range(300, 400))
    read(second, arrives=range(300, 400))
    received = topics.received(sink)
    assert set(received) == {*range(100), *range(150, 200), *range(300, 400)}
    assert max(received.values()) == 1


@pytest.mark.proves("failures.md#the-partitions-outgrow-executormaxinstances")
@pytest.mark.parametrize(
    "trigger",
    [CONTINUOUS, pytest.param(REAL_TIME, marks=pytest.mark.full)],
    ids=["continuous", "real-time"],
)
def test_an_edit_of_the_topics_leaves_out_what_was_left_out(
    trigger: dict[str, Any], kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """A checkpoint with offsets of partitions that are not read would be lost records to Spark."""
    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    three_cores = {"executor": {"cores": 3, "maxInstances": 1}, "sparkConf": POLLING}
    first, second, sink = topics.make(1), topics.make(2), topics.make()

    def run(*names: str, arrives: range) -> DriverReport:
        edited = number_flow(topics, first, sink, trigger, {"topics": list(names)}, **three_cores)
        with running(edited, jvm, where, api=api) as driver:
            report = driver.wait(
                "all and a commit",
                lambda report: report.committed and set(arrives) <= set(topics.received(sink)),
            )
        reasons = {it.last_failure.reason for it in driver.reports if it.last_failure}
        assert "DataLoss" not in reasons
        return report

    topics.send(first, range(100))
    topics.send(second, range(100, 200))
    run(first, second, arrives=range(200))
    topics.grow(second, 5)
    topics.send(second, range(1000, 1100), partition=4)
    topics.delete_before(second, {4: 50})
    for numbers in (range(200, 300), range(300, 400)):  # the edit, and a start after it
        topics.send(second, numbers, partition=0)
        report = run(second, arrives=numbers)
        assert report.partitions == 2
        assert not set(topics.received(sink)) & set(range(1000, 1100))
    edited = number_flow(topics, first, sink, trigger, {"topics": [second]})
    # Its loss counts only now.
    with running(edited, jvm, where.generation(0), fast_recheck(edited)) as driver:
        driver.wait_failure("DataLoss")


@pytest.mark.proves(
    4,
    "failures.md#the-sources-topic-is-deleted-while-the-query-reads-it",
    "failures.md#the-sources-topic-was-deleted-and-created-again",
)
@pytest.mark.usefixtures("fast_polling")
@pytest.mark.parametrize("accepts", [True, False], ids=["accepted", "refused"])
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_a_topic_recreated_while_the_query_runs(
    trigger: dict[str, Any], accepts: bool, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The continuous engine itself keeps committing as if there were no records."""
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    it = number_flow(topics, source, sink, trigger, of_source={"failOnDataLoss": not accepts})
    with running(it, jvm, tmp_path, fast_recheck(it)) as driver:
        topics.wait_received(sink, range(100))
        driver.wait("no lag", lambda report: report.committed and report.lag == 0)
        topics.delete(source)
        wait_refused(driver, "TopicMissing")
        topics.make(2, source)
        topics.send(source, range(100, 400))
        if accepts:
            topics.wait_received(sink, range(400))
            failure = driver.wait_ready().last_failure
        else:
            failure = wait_refused(driver, "DataLoss").last_failure
        assert failure is not None
        assert failure.reason == "DataLoss"
        assert "created again" in failure.message


@pytest.mark.proves(4)
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_a_topic_recreated_while_the_query_waits_for_cores(
    trigger: dict[str, Any],
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The query was planned with offsets of the old topic, and the new one is longer."""
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    read_hundred(topics, number_flow(topics, source, sink, trigger), jvm, tmp_path, sink)
    accepting = number_flow(topics, source, sink, trigger, of_source={"failOnDataLoss": False})
    with monkeypatch.context() as without_cores:
        without_cores.setattr(SparkApplication, "registered", lambda *_, **__: (0, 0))
        with running(accepting, jvm, tmp_path) as driver:
            driver.wait("planned", lambda _: driver.runtime._is_planned)
            topics.delete(source)
            topics.make(2, source)
            topics.send(source, range(100, 400))
            monitor = driver.runtime._source
            assert isinstance(monitor, watch.KafkaSourceMonitor)
            monitor._refresh()  # instead of the next poll, which may come between the two
            driver.wait_failure("DataLoss")
            without_cores.undo()
            topics.wait_received(sink, range(400))


@pytest.mark.proves(3, "failures.md#retention-deleted-records-before-they-were-read")
@pytest.mark.usefixtures("fast_polling")
@pytest.mark.parametrize("accepts", [True, False], ids=["accepted", "refused"])
def test_records_lost_while_the_query_runs(
    accepts: bool, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Retention overtakes a query that lags."""
    source, sink = topics.make(1), topics.make()
    # A fetch gets one batch of the producer, so that little is read ahead; all takes a minute.
    slow = {"maxOffsetsPerTrigger": "20", "kafka.max.partition.fetch.bytes": "1"}
    it = number_flow(
        topics, source, sink, {"microBatch": {"interval": "4s"}},
        of_source={"failOnDataLoss": not accepts, "options": slow},
    )  # fmt: skip
    with running(it, jvm, tmp_path, fast_recheck(it)) as driver:
        for start in range(0, 300, 10):
            topics.send(source, range(start, start + 10))
        driver.wait("a commit", lambda report: report.committed)
        topics.delete_before(source, {0: 290})
        if not accepts:
            failure = wait_refused(driver, "DataLoss").last_failure
            assert failure is not None
            assert "records were deleted before they were read" in failure.message
            return
        topics.wait_received(sink, range(290, 300))
        report = driver.wait_failure("DataLoss")
        assert report.last_failure is not None
        assert "records were gone from Kafka" in report.last_failure.message
        assert not report.last_failure.permanent
        assert report.query_restarts == 0
        driver.wait_ready()


@pytest.mark.proves("failures.md#partitions-are-added")
@pytest.mark.usefixtures("fast_polling")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_partitions_grow_under_traffic(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path, record_figure: RecordFigure
) -> None:
    source, sink = topics.make(2), topics.make()
    new = range(1_000_000, 1_000_200)
    flow = number_flow(topics, source, sink, trigger)
    with commits_of(tmp_path) as commits, running(flow, jvm, tmp_path) as driver:
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
    record_figure("records sent", len(received))
    record_figure("duplicates", sum(received.values()) - len(received))
    assert topics.replays_of_committed(commits, source, sink) == []


@pytest.mark.proves(6, "failures.md#the-output-topic-does-not-exist")
@pytest.mark.parametrize("trigger", ENGINES_AND_REAL_TIME)
def test_a_missing_output_topic_is_reported_and_waited_for(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The real-time engine itself hangs, and the others only report a timeout."""
    source, sink = topics.make(), topics.make()
    topics.delete(sink)
    topics.send(source, range(10))
    flow = number_flow(topics, source, sink, trigger)
    with running(flow, jvm, tmp_path, fast_recheck(flow)) as driver:
        failure = wait_refused(driver, "TopicMissing").last_failure
        assert failure is not None
        assert failure.permanent
        assert f"The output topic {sink} does not exist" in failure.message
        topics.make(name=sink)
        topics.wait_received(sink, range(10))


@pytest.mark.proves("failures.md#the-output-topic-asks-for-more-replicas-than-it-has")
def test_an_output_topic_that_can_never_take_a_record_is_reported(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """A producer waits two minutes for replicas that there are not, and says that some are away."""
    source, sink = topics.make(), topics.make(config={"min.insync.replicas": "2"})
    topics.send(source, range(10))
    flow = number_flow(topics, source, sink, CONTINUOUS)
    with running(flow, jvm, tmp_path, fast_recheck(flow)) as driver:
        failure = wait_refused(driver, "TooFewReplicas").last_failure
        assert failure is not None
        assert "min.insync.replicas=1" in failure.message
        topics.configure(sink, "min.insync.replicas", "1")
        topics.wait_received(sink, range(10))


@pytest.mark.proves("failures.md#the-output-topic-is-deleted-while-the-query-writes-to-it")
def test_a_deleted_output_topic_is_reported(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, CONTINUOUS)
    with running(flow, jvm, tmp_path, fast_recheck(flow)) as driver:
        driver.wait_ready()
        topics.delete(sink)
        topics.send(source, range(10))
        wait_refused(driver, "TopicMissing")
        topics.make(name=sink)
        topics.wait_received(sink, range(10))
