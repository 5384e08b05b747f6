"""What reports contain beyond the current observation."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.reporting import report_builder
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.report_builder import ReportBuilder
from penstock.driver.supervision.next_action import Action
from penstock.driver.supervision.observation import State
from testkit.driver.observations import PASSING, UP

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
    waits = State(failure=PASSING, retry_at=400.0)

    def at(monotonic: float, wall: datetime, after: State = waits) -> datetime | None:
        monkeypatch.setattr(time, "monotonic", lambda: monotonic)
        monkeypatch.setattr(report_builder, "_now", lambda: wall)
        reports.record_transition(waits, after, Action.WAIT)
        report = reports.build(QueryState.RESTARTING, "", after, UP, None, None)
        return report.next_retry_time

    due, hour = NOON + timedelta(seconds=300), timedelta(hours=1)
    assert at(100.0, NOON) == due
    assert at(110.6, NOON + timedelta(seconds=11)) == due
    assert at(111.0, NOON + timedelta(seconds=11) - hour) == due - hour
    assert (
        at(112.0, NOON - hour, replace(waits, retry_at=172.0)) == NOON + timedelta(minutes=1) - hour
    )
    assert at(112.0, NOON - hour, replace(waits, retry_at=None)) is None
