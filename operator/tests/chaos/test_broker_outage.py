"""A broker that is away for a while and comes back: said meanwhile, and nothing lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import running
from testkit.kafka.broker import LocalBroker, local_broker
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def own_broker() -> Iterator[LocalBroker]:
    """A broker that no other test needs."""
    with local_broker() as running:
        yield running


@pytest.mark.parametrize(
    ("trigger", "end", "seconds"),
    [
        pytest.param(CONTINUOUS, LocalBroker.kill, 60, id="continuous-killed"),
        pytest.param(MICRO_BATCH, LocalBroker.stop, 30, id="micro-batch-stopped"),
    ],
)
def test_a_broker_that_is_away(
    trigger: dict[str, Any],
    end: Callable[[LocalBroker], None],
    seconds: float,
    own_broker: LocalBroker,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    topics = Topics(own_broker.bootstrap)
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    with running(flow, jvm, tmp_path) as driver:
        topics.send(source, range(100))
        topics.wait_received(sink, range(100))
        driver.wait_ready()
        topics.send(source, range(100, 150))  # some of them are on their way
        went = time.monotonic()
        end(own_broker)
        report = driver.wait_failure("BrokerUnreachable")
        print(f"said after {time.monotonic() - went:.0f} s: {report.message}")
        assert report.state is QueryState.RESTARTING
        assert not driver.health.ready
        time.sleep(max(0.0, went + seconds - time.monotonic()))  # how long it is away
        own_broker.start()
        back = time.monotonic()
        topics.send(source, range(150, 250))
        received = topics.wait_received(sink, range(250))
        print(f"all of it out {time.monotonic() - back:.0f} s after the broker's return")
        driver.wait("running", lambda report: report.state is QueryState.RUNNING)
        driver.wait_ready()
        print(
            f"{sum(received.values()) - len(received)} duplicates, "
            f"{driver.last.query_restarts} restarts of the query"
        )
