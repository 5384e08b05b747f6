"""A source that others write in transactions, some of which stay open: with a real broker."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import held_records, source_monitor
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics
from testkit.streams.streams import CONTINUOUS, kafka_to_kafka, stream

BATCHES: dict[str, Any] = {"microBatch": {"interval": "100ms"}}
FULL = pytest.mark.full


@contextlib.contextmanager
def transaction(topics: Topics, topic: str, numbers: range) -> Iterator[Producer]:
    """Open, with these numbers in partition 0; aborted if it still is at the end."""
    options = {"bootstrap.servers": topics.bootstrap, "transactional.id": uuid.uuid4().hex}
    producer = Producer({**options, "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, str(number), str(number), partition=0)
    assert producer.flush(60) == 0
    try:
        yield producer
    finally:
        with contextlib.suppress(Exception):  # it is over
            producer.abort_transaction(60)


def flow(
    topics: Topics,
    source: str,
    sink: str,
    *,
    committed: bool,
    trigger: dict[str, Any],
    delivery: str,
    fails: bool,
) -> ContinuousStream:
    level = {"options": {"kafka.isolation.level": "read_committed"}} if committed else {}
    of_source = {"failOnDataLoss": fails, "startingOffsets": "earliest", **level}
    spec = kafka_to_kafka(topics.bootstrap, source, sink, trigger, of_source)
    spec["sink"]["kafka"]["delivery"] = delivery
    return stream(**spec)


@pytest.mark.proves("failures.md#the-topic-is-compacted-or-has-transactions")
@pytest.mark.parametrize(
    ("trigger", "delivery", "fails"),
    [
        pytest.param(CONTINUOUS, "AtLeastOnce", True, id="continuous"),
        pytest.param(BATCHES, "AtLeastOnce", True, id="batches"),
        pytest.param(CONTINUOUS, "ExactlyOnce", False, id="exactly once"),
        pytest.param(CONTINUOUS, "AtLeastOnce", False, id="loss accepted", marks=FULL),
        pytest.param(BATCHES, "AtLeastOnce", False, id="batches, loss accepted", marks=FULL),
        pytest.param(BATCHES, "ExactlyOnce", True, id="batches, exactly once", marks=FULL),
        pytest.param(
            {"realTime": {"batchDuration": "5s"}}, "AtLeastOnce", True, id="real time", marks=FULL
        ),
    ],
)
@pytest.mark.parametrize(
    "ends", ["commits", pytest.param("aborts", marks=FULL), pytest.param("hangs", marks=FULL)]
)
def test_an_edit_to_read_committed_and_back_loses_nothing_and_reads_nothing_again(
    ends: str,
    trigger: dict[str, Any],
    delivery: str,
    fails: bool,
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    """The stream is beyond the last stable offset then, and its topic is the same one."""
    source, sink = topics.make(2), topics.make(1)
    told: dict[str, Any] = {"trigger": trigger, "delivery": delivery, "fails": fails}
    before = flow(topics, source, sink, committed=False, **told)
    after = flow(topics, source, sink, committed=True, **told)
    topics.send(source, range(100), partition=0)
    with transaction(topics, source, range(100, 120)) as producer:
        with running(before, jvm, tmp_path) as driver:
            topics.wait_received(sink, range(120))
            driver.wait_committed(120)
        with running(after, jvm, tmp_path) as driver:
            topics.send(source, range(120, 130), partition=1)
            topics.wait_received(sink, range(130))
            driver.wait_ready()
            if ends == "commits":
                producer.commit_transaction(60)
            elif ends == "aborts":
                producer.abort_transaction(60)
            topics.send(source, range(130, 140), partition=0)
            if ends != "hangs":
                topics.wait_received(sink, range(140))
            driver.wait("no lag", lambda report: report.lag == 0)
            assert driver.last.last_failure is None
        with running(before, jvm, tmp_path) as driver:
            topics.send(source, range(140, 150), partition=0)
            received = topics.wait_received(sink, range(150))
            driver.wait("no lag", lambda report: report.lag == 0)
            assert driver.last.last_failure is None
    assert set(received) == set(range(150))
    assert max(received.values()) == 1


@pytest.mark.proves("failures.md#a-transaction-in-the-source-stays-open")
def test_a_transaction_that_hangs_is_said(
    topics: Topics, jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of another producer wait behind it, and the lag does not count them."""
    monkeypatch.setattr(held_records, "WARN_AFTER_SECONDS", 1.0)
    monkeypatch.setattr(source_monitor, "POLL_INTERVAL_SECONDS", 0.5)
    source, sink = topics.make(1), topics.make(1)
    told: dict[str, Any] = {"trigger": CONTINUOUS, "delivery": "AtLeastOnce", "fails": True}
    topics.send(source, range(50))
    with (
        transaction(topics, source, range(50, 51)) as producer,
        running(flow(topics, source, sink, committed=True, **told), jvm, tmp_path) as driver,
    ):
        topics.send(source, range(51, 1051))
        report = driver.wait("said", lambda report: report.warning is not None)
        assert report.warning is not None
        assert report.warning.reason == "SourceHeldByTransaction"
        abort = f"abort --topic {source} --partition 0 --start-offset 50"
        assert abort in report.warning.message
        driver.wait("said to people", lambda report: abort in report.message)
        held = "penstock_driver_source_held_"
        value = driver.metrics.registry.get_sample_value
        assert value(f"{held}records") == 1001
        assert (value(f"{held}seconds") or 0) >= 1
        assert set(topics.received(sink)) == set(range(50))
        producer.abort_transaction(60)
        topics.wait_received(sink, {*range(50), *range(51, 1051)})
        driver.wait("no longer said", lambda report: report.warning is None)
        assert value(f"{held}records") == 0
