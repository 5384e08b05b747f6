"""The node's clock is set, back and forth by an hour, under traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testkit.driver.driver_process import WallClock, driver, traffic
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, REAL_TIME
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(600)

HOUR = 3600
# Without an interval a batch follows the other, and nothing is timed.
TIMED = {"microBatch": {"interval": "500ms"}}
# Otherwise records have the time of the clock that jumps.
STAMPED_BY_THE_BROKER = {"message.timestamp.type": "LogAppendTime"}


@pytest.mark.proves(21, "failures.md#the-clock-of-the-drivers-node-is-set-back-or-ahead")
@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param(CONTINUOUS, id="continuous"),
        pytest.param(TIMED, id="micro-batch", marks=pytest.mark.full),
        pytest.param(REAL_TIME, id="real-time", marks=pytest.mark.full),
    ],
)
def test_a_clock_that_jumps_silences_no_stream(
    trigger: dict[str, Any],
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = topics.make(), topics.make(config=STAMPED_BY_THE_BROKER)
    flow, clock = number_flow(topics, source, sink, trigger), WallClock(tmp_path)
    with (
        commits_of(tmp_path / "checkpoint") as commits,
        driver(flow, tmp_path, class_path, environment=clock.environment) as process,
    ):
        process.wait_ready()
        with traffic(topics, source, every=0.2) as sent:
            wait_for("records", lambda: topics.received(sink) and commits.commits)
            clock.set_ahead(-HOUR)
            restart = 'penstock_driver_restarts_total{level="query",reason="ClockSetBack"} 1.0'
            wait_for("a restart", lambda: restart in process.page("/metrics"))
            process.wait_ready()
            topics.wait_received(sink, range(sent[0]))
            clock.set_ahead(0)
            before = len(commits.commits)
            wait_for("commits", lambda: len(commits.commits) > before + 1)
        received = topics.wait_received(sink, range(sent[0]))
        process.wait_ready()
        assert process.stop() == 0
    record_figure("records sent", sent[0])
    record_figure("duplicates", sum(received.values()) - len(received))
    assert topics.replays_of_committed(commits, source, sink) == []
