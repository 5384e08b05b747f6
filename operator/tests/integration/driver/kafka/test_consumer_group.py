"""A stream's lag in Kafka's own tools, through the consumer group that the spec names."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.driver.jvm import Jvm
from penstock.driver.kafka import consumer_group
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.kafka.consumer_groups import describe
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import ASYNC, CONTINUOUS, MICRO_BATCH, REAL_TIME
from testkit.wait import wait_for


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_group, "INTERVAL_SECONDS", 0.2)
    monkeypatch.setattr(consumer_group, "REFRESH_SECONDS", 0.5)
    monkeypatch.setattr(consumer_group, "OTHERS_SECONDS", 2.0)


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def lags(topics: Topics, group: str) -> dict[tuple[str, int], int]:
    return {place: shown.lag for place, shown in describe(topics.bootstrap, group).items()}


def wait_warned(driver: InProcessDriver, reason: str, words: str) -> None:
    """Waits for the warning, which the status shows as long as it lasts; the stream stays Ready."""
    driver.wait_failure(reason)
    driver.wait("warned", lambda report: words in report.message)
    assert driver.health.ready


def wait_silent(driver: InProcessDriver) -> None:
    driver.wait("no warning", lambda report: not report.message)


@pytest.mark.proves("operate.md#lag-in-kafkas-own-tools")
@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param(CONTINUOUS, id="continuous"),
        pytest.param(MICRO_BATCH, id="micro-batch", marks=pytest.mark.full),
        pytest.param(ASYNC, id="async", marks=pytest.mark.full),
        pytest.param(REAL_TIME, id="real-time", marks=pytest.mark.full),
    ],
)
def test_kafkas_own_tool_shows_the_lag(
    trigger: dict[str, Any], group: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Of two topics, while the stream runs and when it has stopped."""
    one, two, sink = topics.make(2), topics.make(1), topics.make(1)
    read = {"topics": [one, two], "consumerGroup": group}
    flow = number_flow(topics, one, sink, trigger, read)
    none = {(one, 0): 0, (one, 1): 0, (two, 0): 0}
    topics.send(one, range(20))
    with running(flow, jvm, tmp_path) as driver:
        topics.send(two, range(20, 30))
        wait_for("no lag", lambda: lags(topics, group) == none)
        topics.send(two, range(30, 35))
        wait_for("the next", lambda: describe(topics.bootstrap, group)[two, 0].offset == 15)
        assert driver.last.last_failure is None
        topics.send(one, range(35, 45))
        driver.wait_committed(45)
    assert lags(topics, group) == none  # of the last commit too
    topics.send(two, range(45, 52))
    assert lags(topics, group) == {**none, (two, 0): 7}


@pytest.mark.proves("operate.md#lag-in-kafkas-own-tools")
def test_a_group_that_others_use_is_a_warning_while_they_do(
    group: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """It has members at first; then somebody else commits to it."""
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(10))
    client = {"bootstrap.servers": topics.bootstrap, "group.id": group}
    member = Consumer(client)
    member.subscribe([source])
    wait_for("a member", lambda: member.poll(0.1) is not None or member.assignment())
    flow = number_flow(topics, source, sink, CONTINUOUS, {"consumerGroup": group})
    with running(flow, jvm, tmp_path) as driver:
        wait_warned(driver, "ConsumerGroupHasMembers", "It has members")
        topics.wait_received(sink, range(10))
        member.close()
        wait_silent(driver)
        wait_for("the offsets", lambda: lags(topics, group) == {(source, 0): 0})
        admin = AdminClient({"bootstrap.servers": topics.bootstrap})

        def is_found() -> bool:
            asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(source, 0, 3)])]
            for altered in admin.alter_consumer_group_offsets(asked).values():
                altered.result(30)
            return "somebody else commits" in driver.last.message

        wait_for("another writer is found", is_found)
        wait_warned(driver, "ConsumerGroupShared", "somebody else commits")
        wait_silent(driver)
        assert lags(topics, group) == {(source, 0): 0}
    assert topics.received(sink) == dict.fromkeys(range(10), 1)
