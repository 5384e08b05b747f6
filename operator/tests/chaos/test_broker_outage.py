"""A broker outage is reported while it lasts, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import running
from testkit.kafka.broker import Broker, running_broker
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import ASYNC, CONTINUOUS, MICRO_BATCH, REAL_TIME

pytestmark = pytest.mark.timeout(300)
full = pytest.mark.full


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    with running_broker() as running:
        yield running


@pytest.mark.proves(5, "failures.md#the-sources-brokers-are-unreachable")
@pytest.mark.parametrize(
    ("trigger", "end", "seconds"),
    [
        pytest.param(CONTINUOUS, Broker.kill, 0, id="continuous-killed"),
        pytest.param(CONTINUOUS, Broker.kill, 60, id="continuous-for-long", marks=full),
        pytest.param(MICRO_BATCH, Broker.stop, 30, id="micro-batch-stopped", marks=full),
        pytest.param(ASYNC, Broker.kill, 0, id="async-killed", marks=full),
        pytest.param(REAL_TIME, Broker.kill, 0, id="real-time-killed", marks=full),
    ],
)
def test_a_broker_outage(
    trigger: dict[str, Any],
    end: Callable[[Broker], None],
    seconds: float,
    own_broker: Broker,
    jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    topics = Topics(own_broker.bootstrap)
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    with commits_of(tmp_path) as commits, running(flow, jvm, tmp_path) as driver:
        topics.send(source, range(100))
        topics.wait_received(sink, range(100))
        driver.wait_ready()
        topics.send(source, range(100, 150))  # some of them are not processed yet
        went = time.monotonic()
        end(own_broker)
        report = driver.wait_failure("BrokerUnreachable")
        record_figure("seconds until the outage is reported", time.monotonic() - went)
        assert report.state is QueryState.RESTARTING
        assert not driver.health.ready
        time.sleep(max(0.0, went + seconds - time.monotonic()))  # the duration of the outage
        own_broker.start()
        back = time.monotonic()
        topics.send(source, range(150, 250))
        received = topics.wait_received(sink, range(250))
        record_figure("seconds until all records are in the sink", time.monotonic() - back)
        driver.wait("running", lambda report: report.state is QueryState.RUNNING)
        driver.wait_ready()
        record_figure("duplicates", sum(received.values()) - len(received))
        record_figure("restarts of the query", driver.last.query_restarts)
    assert topics.replays_of_committed(commits, source, sink) == []
