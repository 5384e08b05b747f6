"""A stalled query and a hung JVM, which no exception reports, are found and restarted."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract.driver_report import QueryState
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.stall_detection import COMMITS_STUCK, NO_PROGRESS
from testkit.driver.checkpoints import folder_at
from testkit.driver.driver_process import driver
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import MICRO_BATCH, RATE, stream
from testkit.wait import wait_for

_SPARKS_DEFAULT = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)


@pytest.mark.proves(21)
def test_a_swallowed_commit_failure_restarts_the_query(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Without a restart the query keeps planning epochs and never commits again."""
    source, sink = topics.make(1), topics.make()
    flow = number_flow(
        topics, source, sink,
        {"continuous": {"checkpointInterval": "200ms"}},
        # A leftover checksum makes this one fail, and not the one that Penstock sets.
        sparkConf={"spark.sql.streaming.checkpointFileManagerClass": _SPARKS_DEFAULT},
    )  # fmt: skip
    folder = folder_at(tmp_path)
    with running(flow, jvm, tmp_path) as it:
        epoch = it.wait_ready().epoch
        assert epoch is not None
        planted = tmp_path / "commits" / f".{epoch + 10}.crc"
        planted.write_bytes(b"crc\0")
        topics.send(source, range(50))
        report = it.wait("a restart", lambda report: report.query_restarts == 1)
        assert report.last_failure is not None
        assert report.last_failure.reason == COMMITS_STUCK
        topics.send(source, range(50, 100))
        it.wait("all", lambda _: folder.progress.committed_offsets() == {source: {0: 100}})
        assert it.runtime.has_session
    assert set(topics.received(sink)) == set(range(100))
    assert json.dumps(COMMITS_STUCK) in report.model_dump_json()


def test_a_commit_that_fails_is_known_at_once(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """The engine swallows it, and would write on until the next one is overdue.

    With the folder the earlier commit is gone too, so a look between offsets and commit finds two
    epochs without one, and says that. Then it is tried again.
    """
    tries = (_names_the_log(topics, jvm, tmp_path / str(number)) for number in range(3))
    assert any(tries)


def _names_the_log(topics: Topics, jvm: Jvm, folder: Path) -> bool:
    """Whether the failure is known by the file that could not be written."""
    source, sink = topics.make(1), topics.make(1)
    flow = number_flow(topics, source, sink, {"continuous": {"checkpointInterval": "20s"}})
    with running(flow, jvm, folder) as it:
        it.wait_ready()
        log = folder / "commits"
        log.rename(folder / "moved")
        report = it.wait_failure(COMMITS_STUCK)
        assert report.last_failure is not None
        return str(log) in report.last_failure.message


@pytest.mark.proves(21, "failures.md#a-task-is-stuck")
def test_one_stuck_task_is_found_although_its_job_runs(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The other partition goes on. A task that never ends is no progress."""
    source, sink = topics.make(2), topics.make()
    sleeps = "CASE WHEN CAST(value AS STRING) = '-1' THEN java_method('java.lang.Thread', 'sleep', "
    flow = number_flow(
        topics, source, sink, MICRO_BATCH,
        transform={"sql": f"SELECT value, {sleeps} 1000000L) END AS key FROM source"},
    )  # fmt: skip
    policy = replace(RestartPolicy.from_spec(flow.spec), min_patience=5.0, backoff_base=0.1)
    with running(flow, jvm, tmp_path, policy) as it:
        it.wait_ready()
        topics.send(source, range(20), partition=0)
        topics.wait_received(sink, range(20))
        assert it.last.query_restarts == 0
        topics.send(source, range(-1, 0), partition=1)
        report = it.wait_failure(NO_PROGRESS)
        assert not it.health.ready
        it.wait("a restart", lambda report: report.query_restarts >= 1)
    assert report.state is QueryState.RESTARTING


def test_a_session_that_stopped_by_itself_is_replaced(jvm: Jvm, tmp_path: Path) -> None:
    """pyspark refuses a second context as long as it does not know that the first has ended."""
    with running(stream(RATE), jvm, tmp_path) as it:
        it.wait_ready()
        assert it.runtime.session is not None
        it.runtime.session.sparkContext._jsc.sc().stop()
        it.wait_failure("SessionStopped")
        it.wait("again", lambda report: report.query_restarts == 1 and report.committed)


@pytest.mark.proves(21, "failures.md#the-drivers-jvm-is-frozen")
def test_a_jvm_that_does_not_answer_is_killed(class_path: str, tmp_path: Path) -> None:
    """A call into it never returns. The termination message gives the reason."""
    with driver(stream(RATE), tmp_path, class_path) as process:
        process.wait_ready()
        os.kill(process.jvm, signal.SIGSTOP)
        wait_for("not ready", lambda: process.probe("/readyz") == 503)
        assert process.process.wait(60) == 1
    failure = LastFailure.model_validate_json(process.termination_log.read_text())
    assert failure.reason == "DriverHung"
