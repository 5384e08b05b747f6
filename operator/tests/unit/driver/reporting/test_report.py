"""What the driver reports, and when."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.api.v1alpha1.status import MAX_COMMITTED_OFFSETS, Cause, LastFailure, LastRepair
from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.contract.driver_report import NUMBERS_INTERVAL_SECONDS, DriverReport, QueryState
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import Failure
from penstock.driver.reporting import report
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.publisher import as_annotation, is_due
from penstock.driver.reporting.report import (
    ReportBuilder,
    committed_offsets,
    last_repair,
    write_termination_message,
)
from penstock.driver.supervision.next_action import (
    Action,
    NewFailure,
    NewInterruption,
    NewWarning,
    QueryRestarted,
)
from penstock.driver.supervision.phases import BackingOff, State
from testkit.driver.metric_samples import numbers
from testkit.driver.observations import PASSING, PERMANENT, UP

RUNNING = DriverReport(spec_hash="hash", state=QueryState.RUNNING, epoch=3, lag=10)


def test_transitions_are_published_at_once_and_numbers_after_an_interval() -> None:
    assert is_due(RUNNING, None, 0.0)
    assert not is_due(RUNNING, RUNNING, 1e9)
    restarting = RUNNING.model_copy(update={"state": QueryState.RESTARTING})
    assert is_due(restarting, RUNNING, 0.0)
    further = RUNNING.model_copy(update={"epoch": 4, "lag": 12})
    assert not is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS - 1)
    assert is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS)


def test_committed_offsets_are_numbers_that_wait_for_the_interval() -> None:
    offsets, omitted = committed_offsets({"a": {0: 7}})
    further = RUNNING.model_copy(
        update={"committed_offsets": offsets, "committed_offsets_omitted": omitted}
    )
    assert not is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS - 1)
    assert is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS)


def test_the_lag_leaves_out_what_a_batch_has_read_and_nothing_twice() -> None:
    reports = ReportBuilder("hash", Metrics())

    def lag(committed: int, handled: int, *, has_query: bool = True) -> int | None:
        known = {"in": {0: committed}}
        seen = replace(
            UP, offsets=known, has_query=has_query, activity=replace(UP.activity, handled=handled)
        )
        # The newest commit may be one that the observation has not seen.
        newest = ({"in": {0: committed + 20}}, {"in": {0: 40}})
        return reports.build(QueryState.RUNNING, "", State(), seen, None, newest).lag

    assert lag(10, 20) == 10
    assert lag(10, 0) == 10  # the batch has ended, and its commit is to come
    assert lag(30, 0) == 10
    assert lag(30, 5) == 5
    assert lag(30, 15) == 0  # the newest offsets are older
    assert lag(30, 0, has_query=False) is None
    assert lag(30, 0) == 10  # another query reads them again


def test_committed_offsets_are_ordered_and_bounded() -> None:
    offsets, omitted = committed_offsets({"b": {1: 3, 0: 2}, "a": {10: 1, 9: 0}})
    assert [(each.topic, each.partition, each.offset) for each in offsets] == [
        ("a", 9, 0), ("a", 10, 1), ("b", 0, 2), ("b", 1, 3),
    ]  # fmt: skip
    assert omitted is None
    assert committed_offsets({}) == ([], None)
    many = {"a": dict.fromkeys(range(60), 1), "b": dict.fromkeys(range(10), 1)}
    offsets, omitted = committed_offsets(many)
    assert len(offsets) == MAX_COMMITTED_OFFSETS
    assert (offsets[-1].topic, offsets[-1].partition) == ("b", 3)
    assert omitted == 6


def test_the_annotation_has_the_known_values() -> None:
    text = as_annotation(RUNNING)
    assert '"specHash":"hash"' in text
    assert "null" not in text
    assert DriverReport.model_validate_json(text) == RUNNING


def test_the_termination_message_fits_and_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    failure = Failure("DriverKilled", "x" * 10_000).to_status(datetime.now(UTC))
    write_termination_message(path, failure)
    assert path.stat().st_size < 4096
    assert LastFailure.model_validate_json(path.read_text()).reason == "DriverKilled"


def test_no_place_for_a_termination_message_is_no_failure(tmp_path: Path) -> None:
    failure = Failure("DriverKilled", "").to_status(datetime.now(UTC))
    write_termination_message(None, failure)
    write_termination_message(tmp_path / "missing" / "log", failure)


def test_a_repair_is_reported_by_its_most_severe_kind() -> None:
    found = [Repair(RepairKind.UNCOMMITTED_OFFSETS, f"offsets/{n}") for n in range(8, 14)]
    repair = RepairPlan((), 7, (*found, Repair(RepairKind.IMPORTED, "commits/8")))
    now = datetime.now(UTC)
    assert last_repair(repair, now) == LastRepair(
        reason="Imported",
        cause=Cause.SWITCH,
        message="UncommittedOffsets (offsets/8, offsets/9, offsets/10 and 3 more); "
        "Imported (commits/8); the stream continues from epoch 7",
        time=now,
    )


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_report_has_the_time_of_the_last_commit() -> None:
    """In whole seconds, as Kubernetes has its times."""
    reports = ReportBuilder("hash", Metrics())
    known = reports.build(QueryState.RUNNING, "", State(), UP, None, None, NOON.timestamp() + 0.7)
    assert known.last_commit_time == NOON
    unknown = reports.build(QueryState.STARTING, "", State(), UP, None, None)
    assert unknown.last_commit_time is None


def test_the_next_retry_time_follows_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same in each report, until the attempt or the clock changes."""
    reports = ReportBuilder("hash", Metrics())

    def at(monotonic: float, wall: datetime, retry_at: float = 400.0) -> datetime | None:
        monkeypatch.setattr(time, "monotonic", lambda: monotonic)
        monkeypatch.setattr(report, "_now", lambda: wall)
        state = State(BackingOff(PASSING, retry_at))
        return reports.build(QueryState.RESTARTING, "", state, UP, None, None).next_retry_time

    due, hour = NOON + timedelta(seconds=300), timedelta(hours=1)
    assert at(100.0, NOON) == due
    assert at(110.6, NOON + timedelta(seconds=11)) == due
    assert at(111.0, NOON + timedelta(seconds=11) - hour) == due - hour
    assert at(112.0, NOON - hour, 172.0) == NOON + timedelta(minutes=1) - hour
    running = reports.build(QueryState.RUNNING, "", State(), UP, None, None)
    assert running.next_retry_time is None


def test_events_are_counted_and_the_newest_failure_is_reported() -> None:
    """A warning too: users look for it there."""
    metrics = Metrics()
    reports = ReportBuilder("hash", metrics)
    reports.record([NewFailure(PASSING)], Action.STOP_QUERY)
    reports.record([QueryRestarted(PASSING)], Action.START_QUERY)
    reports.record([NewInterruption(Failure("NoProgress", "for 8 s"))], Action.WAIT)
    reports.record([NewWarning(Failure("TooFewExecutorsAllowed", "2"))], Action.WAIT)
    failure = reports.build(QueryState.RUNNING, "", State(), UP, None, None).last_failure
    assert failure is not None
    assert (failure.reason, failure.permanent) == ("TooFewExecutorsAllowed", False)
    found = numbers(metrics)
    for reason in ("TaskFailed", "NoProgress", "TooFewExecutorsAllowed"):
        assert found[f"failures_total{{permanent=false,reason={reason}}}"] == 1
    assert found["stall_actions_total{action=wait,reason=NoProgress}"] == 1
    assert found["restarts_total{level=query,reason=TaskFailed}"] == 1


def test_a_failure_that_a_recheck_finds_again_keeps_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports = ReportBuilder("hash", Metrics())

    def at(now: datetime, failure: Failure) -> datetime | None:
        monkeypatch.setattr(report, "_now", lambda: now)
        reports.record([NewFailure(failure, repeated=True)], Action.STOP_SESSION)
        known = reports.build(QueryState.FAILED, "", State(), UP, None, None).last_failure
        return None if known is None else known.time

    assert at(NOON, PERMANENT) == NOON
    assert at(NOON + timedelta(minutes=1), PERMANENT) == NOON
    later = NOON + timedelta(minutes=2)
    assert at(later, replace(PERMANENT, message="another")) == later
