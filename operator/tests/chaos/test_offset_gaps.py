"""Topics whose offsets have gaps: nothing is lost, and no gap is taken for a loss or for lag."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import running
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import (
    ASYNC,
    CONTINUOUS,
    MICRO_BATCH,
    MOSTLY_CONTINUOUS,
    REAL_TIME,
)
from testkit.wait import wait_for

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.001",
}
READ_COMMITTED = {
    "startingOffsets": "earliest",
    "options": {"kafka.isolation.level": "read_committed"},
}


@pytest.mark.proves("failures.md#the-topic-is-compacted-or-has-transactions")
@pytest.mark.parametrize(
    ("trigger", "end"),
    [
        pytest.param(CONTINUOUS, 0, id="continuous"),
        pytest.param(MICRO_BATCH, 0, id="micro-batch"),
        pytest.param(ASYNC, 0, id="async", marks=pytest.mark.full),
        # Its reader, which is Spark's, does not pass the marker of the last transaction.
        pytest.param(REAL_TIME, 1, id="real-time", marks=pytest.mark.full),
    ],
)
def test_a_transactional_topic(
    trigger: dict[str, Any], end: int, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Markers and aborted records take offsets, and are neither records nor lag."""
    source, sink = topics.make(1), topics.make(1)
    flow = number_flow(topics, source, sink, trigger, READ_COMMITTED)
    topics.send_in_transactions(source, range(100))
    with commits_of(tmp_path) as commits:
        with running(flow, jvm, tmp_path) as driver:
            driver.wait_ready()
            topics.wait_received(sink, range(100))
            driver.wait("no lag", lambda report: report.committed and report.lag == end)
        topics.send_in_transactions(source, range(100, 200))
        with running(flow, jvm, tmp_path) as driver:
            received = topics.wait_received(sink, range(200))
            assert driver.wait_ready().last_failure is None
    assert set(received) == set(range(200))  # no aborted record
    assert topics.replays_of_committed(commits, source, sink) == []


@pytest.mark.proves("failures.md#the-topic-is-compacted-or-has-transactions")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_a_compacted_topic(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Compaction leaves gaps, also right after the committed offset."""
    source, sink = topics.make(1, config=COMPACTED), topics.make(1)
    clean_often(topics)
    flow = number_flow(topics, source, sink, trigger)
    for numbers in (range(200), range(200, 400)):
        last_of_each_key(topics, source, numbers)
        with running(flow, jvm, tmp_path) as driver:
            driver.wait_ready()
            wait_for_what_is_left(topics, source, sink)
            driver.wait("no lag", lambda report: report.committed and report.lag == 0)
            assert driver.last.last_failure is None


def wait_for_what_is_left(topics: Topics, source: str, sink: str) -> None:
    """Waits until all that is in the source is in the sink; the broker goes on to compact."""
    wait_for("the rest", lambda: set(topics.received(source)) <= set(topics.received(sink)))


def last_of_each_key(topics: Topics, topic: str, numbers: range) -> None:
    """Sends numbers under ten keys, and waits until most of them are compacted away."""
    producer = Producer({"bootstrap.servers": topics.bootstrap})

    def send(number: int) -> None:
        producer.produce(topic, str(number).encode(), str(number % 10).encode())
        assert producer.flush(30) == 0

    for number in numbers[:-1]:
        send(number)
    time.sleep(0.1)  # the segment's age; the next record starts a new one
    send(numbers[-1])
    wait_for("compaction", lambda: len(topics.received(topic)) < 100)


def clean_often(topics: Topics) -> None:
    """The broker looks for work of its cleaner ten times a second."""
    entry = ConfigEntry(
        "log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET
    )
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    for future in admin.incremental_alter_configs([broker]).values():
        future.result(30)
