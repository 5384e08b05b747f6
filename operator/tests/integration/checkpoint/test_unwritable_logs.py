"""Logs that cannot be written for a while, under traffic: what cannot commit does not write on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import CHECKPOINT_NOT_ACCESSIBLE
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.stall_detection import COMMITS_STUCK
from testkit.driver.driver_process import traffic
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow, total
from testkit.plugins.figures import RecordFigure
from testkit.read_only import read_only
from testkit.streams.streams import (
    ASYNC,
    AVAILABLE_NOW,
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
)
from testkit.wait import wait_for

BOTH = ("offsets", "commits")
_REASONS = {CHECKPOINT_NOT_ACCESSIBLE, COMMITS_STUCK}


def _full(trigger: dict[str, Any], logs: tuple[str, ...], name: str) -> Any:
    return pytest.param(trigger, logs, id=name, marks=pytest.mark.full)


@pytest.mark.proves("failures.md#the-checkpoints-volume-does-not-answer")
@pytest.mark.parametrize(
    ("trigger", "logs"),
    [
        pytest.param(CONTINUOUS, BOTH, id="continuous"),
        pytest.param(MICRO_BATCH, BOTH, id="micro-batch"),
        _full(ASYNC, BOTH, "async"),
        _full(REAL_TIME, BOTH, "real-time"),
        _full(CONTINUOUS, ("commits",), "continuous-commits"),
        _full(MICRO_BATCH, ("commits",), "micro-batch-commits"),
        _full(ASYNC, ("commits",), "async-commits"),
        _full(REAL_TIME, ("commits",), "real-time-commits"),
    ],
)
def test_a_query_that_cannot_commit_is_stopped_until_it_can(
    trigger: dict[str, Any],
    logs: tuple[str, ...],
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Spark's continuous engine would write on, and commit nothing until it is restarted."""
    source, sink = topics.make(2), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    with commits_of(tmp_path) as commits, running(flow, jvm, tmp_path) as it:
        with traffic(topics, source) as sent:
            it.wait_ready()
            it.wait("commits", lambda _: total(it.runtime.progress.committed_offsets()) > 400)
            with read_only(*(tmp_path / log for log in logs)):
                _wait_known(it, record_figure)
                stopped = sent[0]
                wait_for("what was in flight to arrive", lambda: sent[0] > stopped + 500)
                written = topics.received(sink).total()
                wait_for("more traffic", lambda: sent[0] > stopped + 2000)
                assert topics.received(sink).total() == written, "nothing writes meanwhile"
                assert it.runtime.has_session, "the executors wait"
                assert not it.health.ready
            began = time.monotonic()
            it.wait_ready()
            record_figure("ready again after, s", time.monotonic() - began)
        # A micro-batch engine that stops leaves the newest records to its next start.
        received = topics.wait_received(sink, range(sent[0]))
    record_figure("twice", received.total() - len(received))
    assert set(received) == set(range(sent[0]))
    assert topics.replays_of_committed(commits, source, sink) == []
    # One restart, and no attempt in vain: no record comes more than twice.
    assert it.last.query_restarts == 1
    assert max(received.values()) <= 2
    failures = [report.last_failure for report in it.reports if report.last_failure]
    assert {failure.reason for failure in failures} <= _REASONS, "no patience was needed"


@pytest.mark.proves("failures.md#the-checkpoints-volume-does-not-answer")
@pytest.mark.full
@pytest.mark.parametrize("logs", [BOTH, ("commits",)], ids=["both", "commits"])
def test_a_query_that_is_to_end_waits_until_it_can_commit(
    logs: tuple[str, ...],
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(4000))
    limit = {"options": {"maxOffsetsPerTrigger": "40"}}
    flow = number_flow(topics, source, sink, AVAILABLE_NOW, limit)
    with commits_of(tmp_path) as commits, running(flow, jvm, tmp_path) as it:
        it.wait("commits", lambda _: total(it.runtime.progress.committed_offsets()) > 100)
        with read_only(*(tmp_path / log for log in logs)):
            _wait_known(it, record_figure)
            written = topics.received(sink).total()
            time.sleep(5)
            assert topics.received(sink).total() == written < 4000, "nothing writes meanwhile"
        it.wait("completed", lambda report: report.state is QueryState.COMPLETED)
        received = topics.received(sink)
    assert set(received) == set(range(4000))
    assert topics.replays_of_committed(commits, source, sink) == []
    assert it.last.query_restarts == 1
    assert max(received.values()) <= 2


def _wait_known(it: InProcessDriver, record_figure: RecordFigure) -> None:
    began = time.monotonic()
    failure = it.wait_failure(CHECKPOINT_NOT_ACCESSIBLE).last_failure
    record_figure("known after, s", time.monotonic() - began)
    assert failure is not None
    assert "Read-only file system" in failure.message
