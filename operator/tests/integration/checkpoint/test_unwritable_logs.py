"""Logs that cannot be written for a while, under traffic: what cannot commit does not write on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.driver.failures import CHECKPOINT_NOT_ACCESSIBLE
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.stall_detection import COMMITS_STUCK
from testkit.driver.driver_process import traffic
from testkit.driver.in_process_driver import running
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow, total
from testkit.plugins.figures import RecordFigure
from testkit.read_only import read_only
from testkit.streams.streams import CONTINUOUS
from testkit.wait import wait_for


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param(("offsets", "commits"), id="both"),
        pytest.param(("commits",), id="commits", marks=pytest.mark.full),
    ],
)
def test_a_query_that_cannot_commit_is_stopped_until_it_can(
    logs: tuple[str, ...],
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Spark itself would write on, and commit nothing until it is restarted."""
    source, sink = topics.make(2), topics.make()
    flow = number_flow(topics, source, sink, CONTINUOUS)
    with (
        commits_of(tmp_path) as commits,
        running(flow, jvm, tmp_path) as it,
        traffic(topics, source) as sent,
    ):
        it.wait_ready()
        it.wait("commits", lambda _: total(it.runtime.progress.committed_offsets()) > 400)
        with read_only(*(tmp_path / log for log in logs)):
            began = time.monotonic()
            failure = it.wait_failure(CHECKPOINT_NOT_ACCESSIBLE).last_failure
            record_figure("known after, s", time.monotonic() - began)
            assert failure is not None
            assert "Read-only file system" in failure.message
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
        topics.wait_received(sink, range(stopped + 2000))
    received = topics.wait_received(sink, range(sent[0]))
    record_figure("twice", received.total() - len(received))
    assert set(received) == set(range(sent[0]))
    assert topics.replays_of_committed(commits, source, sink) == []
    # One restart, and no attempt in vain: no record comes more than twice.
    assert it.last.query_restarts == 1
    assert max(received.values()) <= 2
    failures = [report.last_failure for report in it.reports if report.last_failure]
    reasons = {failure.reason for failure in failures}
    assert reasons <= {CHECKPOINT_NOT_ACCESSIBLE, COMMITS_STUCK}, "no patience was needed"
