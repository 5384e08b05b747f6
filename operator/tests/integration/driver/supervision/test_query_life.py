"""The driver with real Spark and a real broker in one JVM: start, failures, restart, stop."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.stream import Stream
from penstock.contract.driver_report import QueryState
from penstock.driver.environment import PodEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.followed_stream import FollowedStream
from penstock.driver.record_position import Position
from penstock.driver.supervision.observation import Observation, nothing_observed
from penstock.driver.supervision.query_runtime import QueryRuntime
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver import observations
from testkit.driver.driver_process import traffic
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topics import Topics, number_flow
from testkit.streams import streams
from testkit.streams.streams import RATE, kafka_sink, kafka_source, stream


def test_records_flow_and_a_restart_continues(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(), topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source]), kafka_sink(topics.bootstrap, topic=sink)
    )
    topics.send(source, range(-5, 0))  # before the first start, which reads from the latest
    with running(flow, jvm, tmp_path) as driver:
        first = driver.wait_ready()
        assert (first.partitions, first.cores, first.registered_cores) == (2, 2, 2)
        topics.send(source, range(100))
        topics.wait_received(sink, range(100))
        driver.wait("no lag", lambda report: report.lag == 0)
        current = driver.wait(
            "all records committed",
            lambda report: (
                sum(committed.offset for committed in report.committed_offsets or []) == 105
            ),
        )
        offsets = current.committed_offsets or []
        assert [(committed.topic, committed.partition) for committed in offsets] == [
            (source, 0),
            (source, 1),
        ]
        states = [report.state for report in driver.reports]
        assert states[0] is QueryState.STARTING
        assert states[-1] is QueryState.RUNNING
        assert driver.last.query_restarts == 0
    assert driver.last.state is QueryState.STOPPING
    topics.send(source, range(100, 200))
    with running(flow, jvm, tmp_path):
        received = topics.wait_received(sink, range(200))
    assert set(received) == set(range(200))


@pytest.mark.proves(10)
def test_latest_is_resolved_at_the_first_start_only(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark would start at the end of the topic again at each start until there is a commit."""
    source, sink = topics.make(), topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source]),
        kafka_sink(topics.bootstrap, topic=sink),
        interval="10m",  # no commit in this test
    )
    with running(flow, jvm, tmp_path) as driver:
        driver.wait("a query", lambda report: driver.runtime.has_query)
    topics.send(source, range(50))
    with running(flow, jvm, tmp_path):
        topics.wait_received(sink, range(50))


@pytest.mark.proves("failures.md#the-sources-topic-does-not-exist")
def test_a_missing_topic_is_waited_for(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    sink, missing = topics.make(), f"{topics.make()}-later"
    flow = stream(
        kafka_source(topics.bootstrap, topics=[missing], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
    )
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        failed = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert failed.last_failure is not None
        assert failed.last_failure.reason == "TopicMissing"
        assert failed.last_failure.permanent
        assert not driver.runtime.has_session
        assert not driver.health.ready
        topics.make(name=missing)
        topics.send(missing, range(10))
        topics.wait_received(sink, range(10))


def test_sql_that_spark_refuses_stops_the_session(jvm: Jvm, tmp_path: Path) -> None:
    sql = "SELECT count(*) AS value FROM source"
    with running(stream(transform={"sql": sql}), jvm, tmp_path) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "UnsupportedOperation"
        assert "Aggregate" in report.last_failure.message
        assert report.last_failure.permanent
        driver.wait("released", lambda report: not driver.runtime.has_session)
        assert driver.last.query_restarts == 0


def test_a_failed_query_restarts_in_its_session(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(), topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source]),
        kafka_sink(topics.bootstrap, topic=sink),
    )
    with running(flow, jvm, tmp_path) as driver:
        driver.wait_ready()
        topics.send(source, range(100))
        session = driver.runtime.session
        assert session is not None
        session.sparkContext.cancelAllJobs()
        topics.send(source, range(100, 200))
        driver.wait("a restart", lambda report: report.query_restarts == 1)
        topics.send(source, range(200, 300))
        topics.wait_received(sink, range(300))
        report = driver.wait("a commit", lambda report: report.committed)
        assert report.state is QueryState.RUNNING
        assert report.last_failure is not None
        assert not report.last_failure.permanent
        assert driver.runtime.session is session
        states = [report.state for report in driver.reports]
        assert QueryState.RESTARTING in states


@pytest.mark.proves("operate.md#edit")
def test_a_running_driver_follows_restart_max_attempts(jvm: Jvm, tmp_path: Path) -> None:
    """The next failure ends the stream, and a higher limit starts it again in the same process."""
    followed = FollowedStream()
    with running(stream(RATE), jvm, tmp_path, followed=followed) as driver:
        for attempts in (1, 2):
            edited = stream(RATE, restart={"maxAttempts": attempts})
            manifest = edited.model_dump(mode="json", by_alias=True, exclude_none=True)
            followed.look(lambda: Stream(manifest))  # noqa: B023
            driver.wait_ready()
            session = driver.runtime.session
            assert session is not None
            session.sparkContext.cancelAllJobs()
            report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
            said = f"failure {attempts} in a row, and restart.maxAttempts is {attempts}"
            assert said in report.message
            assert not driver.health.ready
        assert driver.last.query_restarts == 1


@pytest.mark.proves(31, "failures.md#the-transform-cannot-process-a-record")
@pytest.mark.parametrize(
    ("to_int", "reason"),
    [
        ("CAST(CAST(value AS STRING) AS INT)", "CastInvalidInput"),
        ("reflect('java.lang.Integer', 'parseInt', CAST(value AS STRING))", "NumberFormat"),
    ],
    ids=["spark", "java"],
)
def test_a_record_that_cannot_be_processed_is_not_shown(
    to_int: str, reason: str, topics: Topics, jvm: Jvm, jvm_log: Path, tmp_path: Path
) -> None:
    """Neither in the status nor in the JVM's log."""
    source, sink = topics.make(), topics.make()
    sql = f"SELECT key, CAST({to_int} AS STRING) AS value FROM source"
    logged_before = jvm_log.stat().st_size
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source]),
        kafka_sink(topics.bootstrap, topic=sink),
        transform={"sql": sql},
    )
    policy = replace(RestartPolicy.from_spec(flow.spec), backoff_base=0.01, max_poison_failures=2)
    with running(flow, jvm, tmp_path, policy) as driver:
        driver.wait_ready()
        topics.send(source, range(10))
        topics.wait_received(sink, range(10))
        driver.wait_committed(10)
        topics.send(source, range(4_111_222_333, 4_111_222_334))  # no INT
        driver.wait_failure(reason)
        # The stream has committed, so it only slows down, without executors.
        report = driver.wait("released", lambda report: not driver.runtime.has_session)
        assert report.state is QueryState.RESTARTING
        assert report.next_retry_time is not None
        assert report.next_retry_time > datetime.now(UTC) + timedelta(seconds=15)
        assert "4111222" not in report.model_dump_json()
    logged = jvm_log.read_bytes()[logged_before:].decode()
    assert '"rootCause"' in logged
    assert "4111222" not in logged


@pytest.mark.proves("failures.md#executormaxinstances-is-too-low")
def test_too_few_executors_allowed(jvm: Jvm, tmp_path: Path) -> None:
    tight = stream(RATE, executor={"maxInstances": 1})
    where = PodEnvironment("numbers-driver-0", "127.0.0.1", "payments", "hash", tmp_path / "c")
    with running(tight, jvm, where) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "TooFewExecutorsAllowed"
        assert not driver.runtime.has_session


def test_a_batch_that_is_slow_on_each_trigger_is_not_said_each_time(
    jvm: Jvm, jvm_log: Path
) -> None:
    """Five lines at once, then about one a minute. Other tests' batches may have had the five."""
    trigger = jvm.gateway.jvm.org.slf4j.LoggerFactory.getLogger(
        "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor"
    )
    for _ in range(50):
        trigger.warn("Current batch is falling behind, says a test")
    said = jvm_log.read_text().count("falling behind, says a test")
    assert said <= 6


@pytest.mark.parametrize(
    ("trigger", "policy"),
    [
        pytest.param(streams.CONTINUOUS, observations.CONTINUOUS, id="continuous"),
        pytest.param(streams.MICRO_BATCH, observations.POLICY, id="micro-batch"),
        pytest.param(streams.REAL_TIME, observations.REAL_TIME, id="real-time"),
    ],
)
def test_a_real_run_makes_the_observations_of_the_unit_tests(
    trigger: dict[str, Any],
    policy: RestartPolicy,
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Observation] = []
    observe = QueryRuntime.observe

    def recorded(runtime: QueryRuntime, positions_behind: frozenset[Position]) -> Observation:
        seen.append(observe(runtime, positions_behind))
        return seen[-1]

    monkeypatch.setattr(QueryRuntime, "observe", recorded)
    source, sink = topics.make(4), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    _, commits = observations.committing(3, policy)
    with running(flow, jvm, tmp_path) as driver, traffic(topics, source):
        driver.wait("commits", lambda report: report.committed)
        driver.wait("such an observation", lambda _: _shape(commits) in map(_shape, seen))
    _, started = observations.running(policy=policy)
    for made in map(_shape, (nothing_observed(0.0), observations.UP, started)):
        unlike = [
            # It may have committed when it is first seen.
            {name for name in made if made[name] != shape[name]} - _OF_COMMITS
            for shape in map(_shape, seen)
        ]
        assert set() in unlike, min(unlike, key=len)


_OF_COMMITS = {"confirmed_running", "epoch", "offsets", "idle", "idle_trigger"}


def _shape(observation: Observation) -> dict[str, Any]:
    """What is there, without the numbers.

    When the source answers, and how soon the first batch is planned, is a matter of other threads.
    """
    values = {**vars(observation), **vars(observation.activity)}
    for name in ("activity", "source_answered_at", "planned_epoch"):
        del values[name]
    plain = (bool, frozenset)
    return {
        name: bool(value) if isinstance(value, plain) else value is not None
        for name, value in values.items()
    }
