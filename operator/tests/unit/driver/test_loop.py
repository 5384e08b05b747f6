"""The loop without Spark."""

from __future__ import annotations

import errno
import logging
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from penstock.api.v1alpha1.restart import Restart
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.context import DriverContext
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import Failure
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.followed_stream import LiveFields
from penstock.driver.loop import DriverOutput, Loop
from penstock.driver.supervision.history import History, NotedHistory
from penstock.driver.supervision.next_action import Action
from penstock.driver.supervision.observation import Observation, nothing_observed
from penstock.driver.supervision.phases import Starting, State
from penstock.driver.supervision.query_runtime import QueryRuntime
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.checkpoints import folder_at
from testkit.streams.streams import stream


class Exists:
    """A JVM that runs."""

    exit_failure = None

    def is_gone_after(self, error: Exception) -> bool:
        return False


def runtime_in(folder: Path) -> QueryRuntime:
    context = DriverContext.of(stream(), LocalEnvironment(folder), cast(Jvm, Exists()))
    return QueryRuntime(stream(), context)


def test_a_full_disk_does_not_end_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet would restart it for ever. The state is stored later, and logged once."""
    runtime = runtime_in(tmp_path)
    noted = NotedHistory(folder_at(tmp_path).notes, "hash")
    policy = RestartPolicy(1.0)
    loop = Loop(runtime, policy, "hash", DriverOutput(), noted)
    monkeypatch.setattr("penstock.driver.loop._STORE_RETRY_SECONDS", 0.0)
    (tmp_path / "penstock").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        for attempts in (1, 2):
            loop._store(History(attempts=attempts))
    assert len(caplog.records) == 1
    (tmp_path / "penstock").unlink()
    loop._store(History(attempts=2))
    assert noted.read() == History(attempts=2)


def test_a_checkpoint_that_cannot_be_read_for_a_moment_is_one_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop looks four times a second, and each look fails until the next attempt."""
    runtime = runtime_in(tmp_path)

    def fail() -> Observation:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(runtime, "observe", fail)
    loop = Loop(runtime, RestartPolicy(1.0), "hash", DriverOutput())
    loop._state = State(history=History(attempts=8))  # the next attempt is some seconds away
    monkeypatch.setattr("random.random", lambda: 0.9)
    for _ in range(5):
        loop._iterate(None)
    assert loop._state.history.attempts == 9
    assert loop._state.retry_at is not None


def test_a_query_that_has_finished_stays_so_when_a_look_at_its_volume_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing left to do, so nothing fails."""
    runtime = runtime_in(tmp_path)
    looks = [None, OSError(errno.EIO, "Input/output error"), None]

    def look(_: object) -> Observation:
        error = looks.pop(0)
        if error is not None:
            raise error
        return replace(nothing_observed(0.0), completed=True)

    monkeypatch.setattr(runtime, "observe", look)
    monkeypatch.setattr(runtime, "forget_partitions_and_stop", lambda: None)
    reports: list[DriverReport] = []
    loop = Loop(runtime, RestartPolicy(1.0), "hash", DriverOutput(publish=reports.append))
    while looks:
        loop._iterate(None)
    assert [report.state for report in reports] == [QueryState.COMPLETED] * 3
    assert all(report.last_failure is None for report in reports)


def test_the_running_loop_takes_the_limits_that_the_spec_has_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second failure ends the stream, and a higher limit starts it again."""
    runtime = runtime_in(tmp_path)
    found, limits = Failure("TaskFailed", "an executor was lost"), [None, 2, 3]
    seen: list[object] = []
    monkeypatch.setattr("random.random", lambda: 0.0)
    monkeypatch.setattr(runtime, "discover_partitions", lambda: seen.append("discover"))

    loop = Loop(runtime, RestartPolicy(1.0), "hash", DriverOutput())
    while limits:
        restart = Restart(maxAttempts=limits[0], stableAfter="9s")
        runtime.context.followed.live = LiveFields(restart=restart)
        loop._iterate(found if limits[0] != 3 else None)
        seen.append(type(loop._state.phase).__name__)
        limits.pop(0)
    assert seen == ["BackingOff", "Failed", "discover", "Starting"]
    assert loop._policy.stable_after == 9.0


@pytest.mark.parametrize(
    ("permanent", "stays"), [(False, "ExecutorOutOfMemory"), (True, "TaskFailed")]
)
def test_of_what_one_look_finds_the_status_keeps_the_cause_or_the_end(
    permanent: bool, stays: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor that ran out of heap is seen together with the failure that it causes."""
    runtime = runtime_in(tmp_path)
    found = Failure("TaskFailed", "an executor was lost", permanent=permanent)
    warnings = [Failure("ExecutorOutOfMemory", "it ran out of heap"), None]
    monkeypatch.setattr(runtime, "take_warning", lambda: warnings.pop(0))
    reports: list[DriverReport] = []
    output = DriverOutput(publish=reports.append)
    loop = Loop(runtime, RestartPolicy(1.0), "hash", output)
    monkeypatch.setattr("random.random", lambda: 0.9)
    for failure in (found, None):
        loop._iterate(failure)
    for report in reports:
        assert report.last_failure is not None
        assert report.last_failure.reason == stays
    for reason in ("ExecutorOutOfMemory", "TaskFailed"):
        labels = {"reason": reason, "permanent": str(permanent and reason == "TaskFailed").lower()}
        counted = output.metrics.registry.get_sample_value("penstock_driver_failures_total", labels)
        assert counted == 1, reason


def test_the_last_report_has_the_commit_that_the_stop_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who moves a suspended stream starts the next one at the offsets in its status."""
    runtime = runtime_in(tmp_path)
    commits = tmp_path / "commits"
    commits.mkdir(parents=True)

    def commit() -> None:
        (commits / "5").touch()

    reports: list[DriverReport] = []
    monkeypatch.setattr(runtime, "stop_session", commit)
    loop = Loop(runtime, RestartPolicy(1.0), "hash", DriverOutput(publish=reports.append))
    loop._stop(keep_session=False)
    assert [report.state for report in reports] == [QueryState.STOPPING] * 2
    assert reports[0].epoch is None
    assert reports[1].epoch == 5
    assert reports[1].last_commit_time is not None


@pytest.mark.parametrize(("divisions", "said"), [(1, True), (2, True), (3, False)])
def test_only_the_first_divisions_of_state_have_all_the_time_that_they_take(
    divisions: int, said: bool, tmp_path: Path
) -> None:
    """One that fails again and again, in this process or another one, is given up in time; what
    failed before it has nothing to do with it."""
    noted = NotedHistory(folder_at(tmp_path).notes, "hash")
    noted.write(History(attempts=7, divisions=divisions))
    runtime = runtime_in(tmp_path)
    reports: list[DriverReport] = []
    loop = Loop(runtime, RestartPolicy(1.0), "hash", DriverOutput(publish=reports.append), noted)
    loop._look_at_step(Action.REPARTITION_STATE, 0, 30.0)
    assert [report.repartitions_state for report in reports] == [said]


def test_a_clean_stop_makes_the_next_process_count_anew(tmp_path: Path) -> None:
    """Who deletes the driver's pod, or stops the stream, has looked at its failures."""
    noted = NotedHistory(folder_at(tmp_path).notes, "hash")
    stored = History(
        proved=True, attempts=2, poison_failures=3, uncommitted_seconds=64.0, divisions=2
    )
    noted.write(stored)
    runtime = runtime_in(tmp_path)
    policy, stop = RestartPolicy(1.0, max_attempts=4), threading.Event()
    stop.set()
    Loop(runtime, policy, "hash", DriverOutput(), noted).run(stop)
    known = noted.read()
    assert (known.proved, known.attempts, known.poison_failures) == (True, 0, 0)
    assert (known.uncommitted_seconds, known.divisions) == (0.0, 0)


def test_a_drain_during_the_start_is_a_clean_stop_too(tmp_path: Path) -> None:
    """The JVM is ended in the middle of a step, and the loop with it: main.py notes it before. With
    maxAttempts: 1, the next process would else give up."""
    noted = NotedHistory(folder_at(tmp_path).notes, "hash")
    runtime = runtime_in(tmp_path)
    policy = RestartPolicy(1.0, max_attempts=1)
    loop = Loop(runtime, policy, "hash", DriverOutput(), noted)
    loop._store(loop._state.history.for_next_process(policy))  # as `run` does first
    assert noted.read().attempts == 1
    loop.note_clean_stop()
    following = Loop(runtime, policy, "hash", DriverOutput(), noted)
    assert isinstance(following._state.phase, Starting)
