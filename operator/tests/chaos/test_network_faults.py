"""A leader that moves, and a network between clients and broker that is slow, cut or half-open."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.jvm import Jvm
from penstock.driver.kafka import source_monitor
from testkit.driver.driver_process import traffic
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.kafka.brokers import proxied_broker, two_brokers
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import (
    MOSTLY_CONTINUOUS,
    kafka_to_kafka,
    stream,
)
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(240)

# A connection that nobody closed counts as dead after the first of them, 30 s by default. The batch
# engine asks a broker that has ended for offsets until the second, 60 s by default.
IMPATIENT = {
    "options": {"kafka.request.timeout.ms": "4000", "kafka.default.api.timeout.ms": "5000"}
}


def wait_on(driver: InProcessDriver, topics: Topics, sink: str, sent: list[int]) -> None:
    """Waits until all that was sent up to now is in the sink, and the query commits."""
    topics.wait_received(sink, range(sent[0]))
    driver.wait_ready()


def record_deliveries(
    driver: InProcessDriver, received: Counter[int], record_figure: RecordFigure
) -> None:
    record_figure("records sent", len(received))
    record_figure("duplicates", sum(received.values()) - len(received))
    record_figure("restarts of the query", driver.last.query_restarts)


@pytest.mark.proves(5, "failures.md#the-leader-of-a-partition-moves")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_the_leader_of_partitions_moves(
    trigger: dict[str, Any], jvm: Jvm, tmp_path: Path, record_figure: RecordFigure
) -> None:
    with two_brokers() as (first, second):
        topics = Topics(f"{first.bootstrap},{second.bootstrap}")
        source, sink = topics.make(2, replicas=2), topics.make(2, replicas=2)
        flow = number_flow(topics, source, sink, trigger, IMPATIENT)
        with commits_of(tmp_path) as commits, running(flow, jvm, tmp_path) as driver:
            driver.wait_ready()
            with traffic(topics, source, every=0.2) as sent:
                wait_on(driver, topics, sink, sent)
                assert 2 in topics.leaders(source) | topics.leaders(sink)
                second.kill()
                wait_for("the move", lambda: topics.leaders(source) == topics.leaders(sink) == {1})
                wait_on(driver, topics, sink, sent)
                second.start()
                wait_on(driver, topics, sink, sent)
            record_deliveries(driver, topics.wait_received(sink, range(sent[0])), record_figure)
        assert topics.replays_of_committed(commits, source, sink) == []


@pytest.mark.proves(5, "failures.md#a-connection-is-slow-reset-closed-late-or-half-open")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_a_toxic_network(
    trigger: dict[str, Any],
    jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Late, reset, half-open and closed late, one after the other, under traffic."""
    monkeypatch.setattr(source_monitor, "POLL_INTERVAL_SECONDS", 1.0)
    with proxied_broker() as (broker, proxy):
        topics = Topics(broker.bootstrap)
        source, sink = topics.make(), topics.make()
        spec = kafka_to_kafka(broker.proxied, source, sink, trigger, IMPATIENT)
        spec["sink"]["kafka"] |= IMPATIENT
        with commits_of(tmp_path) as commits, running(stream(**spec), jvm, tmp_path) as driver:
            driver.wait_ready()
            with traffic(topics, source, every=0.2) as sent:
                wait_on(driver, topics, sink, sent)
                proxy.delay = 0.1
                wait_on(driver, topics, sink, sent)
                proxy.delay = 0.0
                proxy.reset()
                wait_on(driver, topics, sink, sent)
                proxy.swallow()
                driver.wait_failure("BrokerUnreachable")
                assert not driver.health.ready
                proxy.heal()
                wait_on(driver, topics, sink, sent)
                proxy.close_delay = 2.0
                proxy.close_broker_ends()
                wait_on(driver, topics, sink, sent)
            record_deliveries(driver, topics.wait_received(sink, range(sent[0])), record_figure)
        assert topics.replays_of_committed(commits, source, sink) == []
