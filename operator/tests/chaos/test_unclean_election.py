"""Brokers lose the end of a log that the stream has read: an unclean leader election."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import running
from testkit.kafka.brokers import several_brokers
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import CONTINUOUS
from testkit.wait import wait_for

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

_BATCHES: dict[str, Any] = {"microBatch": {"interval": "100ms"}}


@pytest.mark.proves("failures.md#brokers-lost-the-end-of-a-log")
@pytest.mark.parametrize("trigger", [CONTINUOUS, _BATCHES], ids=["continuous", "batches"])
def test_the_stream_goes_on_at_the_end_and_says_so(
    trigger: dict[str, Any], jvm: Jvm, tmp_path: Path
) -> None:
    """It would wait for its offset, and skip all that is written until then."""
    with several_brokers(3) as (first, leader, follower):
        topics = Topics(first.bootstrap)
        source = _placed(topics, "source", [2, 3], {"unclean.leader.election.enable": "true"})
        sink = _placed(topics, "sink", [1], {})
        topics.send(source, range(100))
        follower.kill()
        topics.send(source, range(100, 150))  # acknowledged by the leader alone
        accepted = {"failOnDataLoss": False, "startingOffsets": "earliest"}
        with running(number_flow(topics, source, sink, trigger, accepted), jvm, tmp_path) as driver:
            topics.wait_received(sink, range(150))
            driver.wait_committed(150)
            leader.kill()
            follower.start()
            wait_for("another leader", lambda: topics.leaders(source) == {3})
            if trigger is _BATCHES:
                # Spark goes on at the end that the next batch finds.
                driver.wait_failure("DataLoss")
            topics.send(source, range(150, 170))
            topics.wait_received(sink, range(170))
            report = driver.wait_failure("DataLoss")
            assert report.last_failure is not None
            assert "unclean leader election" in report.last_failure.message
            driver.wait_ready()
            driver.wait("no lag", lambda report: report.lag == 0)


def _placed(topics: Topics, name: str, brokers: list[int], config: dict[str, str]) -> str:
    """A topic of one partition on these brokers, the first of which leads it."""
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    topic = NewTopic(name, 1, replica_assignment=[brokers], config=config)
    for future in admin.create_topics([topic], operation_timeout=30).values():
        future.result(60)
    wait_for("its leader", lambda: topics.leaders(name) == {brokers[0]})
    return name
