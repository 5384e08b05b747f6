"""All fields that choose topics and start positions in Kafka, and Python from a ConfigMap."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import QueryState
from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topic_reader import TopicReader
from testkit.kafka.topics import Topics
from testkit.streams.streams import (
    ASYNC,
    BOTH_ENGINES,
    CONTINUOUS,
    MICRO_BATCH,
    MOSTLY_BOTH_ENGINES,
    REAL_TIME,
    kafka_sink,
    stream,
)
from testkit.wait import wait_for


def reading(topics: Topics, what: dict[str, Any], sink: str, **spec: Any) -> ContinuousStream:
    return stream(
        {"kafka": {"bootstrapServers": topics.bootstrap, **what}},
        kafka_sink(topics.bootstrap, topic=sink),
        **spec,
    )


def test_topics_by_pattern(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """No topic matches at first; the partitions of all matching topics are counted together."""
    prefix, sink = topics.make(), topics.make()
    flow = reading(topics, {"topicPattern": f"{prefix}-.*", "startingOffsets": "earliest"}, sink)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "TopicMissing"
        for number, partitions in ((1, 2), (2, 1)):
            topics.make(partitions, f"{prefix}-{number}")
        assert driver.wait_ready().partitions in (2, 3)
        for number in (1, 2):
            topics.send(f"{prefix}-{number}", range(10 * number, 10 * number + 10))
        topics.wait_received(sink, range(10, 30))


@pytest.mark.proves(10, "failures.md#the-sources-topic-does-not-exist")
@pytest.mark.parametrize(
    ("trigger", "by"),
    [
        pytest.param(CONTINUOUS, "topics", id="continuous, topics"),
        pytest.param(MICRO_BATCH, "topicPattern", id="micro-batch, pattern"),
        *(
            pytest.param(trigger, by, id=f"{name}, {by}", marks=pytest.mark.full)
            for name, trigger, by in (
                ("continuous", CONTINUOUS, "topicPattern"),
                ("micro-batch", MICRO_BATCH, "topics"),
                ("real-time", REAL_TIME, "topics"),
                ("real-time", REAL_TIME, "topicPattern"),
                ("async", ASYNC, "topicPattern"),
            )
        ),
    ],
)
def test_records_that_come_before_the_driver_looks_again_are_read(
    trigger: dict[str, Any], by: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The stream is applied before its topic exists; the driver restarts while it waits.

    Of a topic that exists, what was there at the first look is not read, and what came since is.
    """
    prefix, sink = topics.make(), topics.make()
    topics.send(prefix, range(100))
    missing = f"{prefix}-later"
    names = {"topics": [prefix, missing]} if by == "topics" else {by: f"{prefix}-.*"}
    flow = reading(topics, names, sink, trigger=trigger)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        failed = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert failed.last_failure is not None
        assert missing in failed.last_failure.message or by in failed.last_failure.message
    came = range(100, 105) if by == "topics" else range(0)
    topics.send(prefix, came)
    topics.make(name=missing)
    topics.send(missing, range(200, 205))
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        driver.wait_ready()
        topics.send(missing, range(300, 301))
        topics.wait_received(sink, [*came, *range(200, 205), 300])
    assert set(topics.received(sink)) == {*came, *range(200, 205), 300}


@pytest.mark.proves(10)
def test_a_stream_that_waits_for_its_output_topic_reads_what_comes_meanwhile(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """A corrected name of the source's topic is new to it, and begins at the latest."""
    source, other, sink = topics.make(), topics.make(), f"{topics.make()}-later"
    topics.send(source, range(10))
    flow = reading(topics, {"topics": [source]}, sink, trigger=MICRO_BATCH)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        driver.wait("failed", lambda report: report.state is QueryState.FAILED)
    topics.send(source, range(10, 20))
    topics.send(other, range(100))
    topics.make(name=sink)
    edited = reading(topics, {"topics": [source, other]}, sink, trigger=MICRO_BATCH)
    with running(edited, jvm, tmp_path) as driver:
        driver.wait_ready()
        topics.send(other, range(100, 101))
        topics.wait_received(sink, [*range(10, 20), 100])
    assert set(topics.received(sink)) == {*range(10, 20), 100}


def test_assigned_partitions_from_given_offsets(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(3), topics.make()
    topics.send(source, range(100, 110), partition=0)
    topics.send(source, range(10), partition=1)
    what = {"assign": {source: [1]}, "startingOffsetsByPartition": {source: {"1": 4}}}
    with running(reading(topics, what, sink), jvm, tmp_path) as driver:
        assert driver.wait_ready().partitions == 1
        topics.wait_received(sink, range(4, 10))
    assert set(topics.received(sink)) == set(range(4, 10))


def test_offsets_that_do_not_name_every_partition(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(2), topics.make()
    what = {"topics": [source], "startingOffsetsByPartition": {source: {"1": 4}}}
    with running(reading(topics, what, sink), jvm, tmp_path) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "StartingOffsetsIncomplete"


def test_headers_pass(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(1), topics.make(1)
    what = {"topics": [source], "startingOffsets": "earliest", "includeHeaders": True}
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    producer.produce(source, b"1", headers={"trace": b"abc"})
    assert producer.flush(30) == 0
    with running(reading(topics, what, sink), jvm, tmp_path):
        topics.wait_received(sink, range(1, 2))
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "headers"})
    consumer.assign([TopicPartition(sink, 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.headers() == [("trace", b"abc")]


def test_python_of_a_config_map(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(1), topics.make(1)
    text = "def odd(source):\n    return source.where('cast(value as string) % 2 = 1')\n"
    ref = {"name": "code", "key": "numbers.py"}
    python = {"function": "numbers_of_mine:odd", "configMap": ref}
    what = {"topics": [source], "startingOffsets": "earliest"}
    flow = reading(topics, what, sink, transform={"python": python})
    environment = LocalEnvironment(tmp_path / "checkpoint", python=tmp_path)
    topics.send(source, range(10))
    with running(flow, jvm, environment, impatient(flow)) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "ConfigMapMissing"
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "numbers.py").write_text(text.replace("value as", "no_such as"))
        driver.wait_failure("UnresolvedColumn")
    (tmp_path / "code" / "numbers.py").write_text(text)
    with running(flow, jvm, environment):
        topics.wait_received(sink, range(1, 10, 2))


@pytest.mark.proves("write-a-stream.md#sink")
@pytest.mark.parametrize("trigger", BOTH_ENGINES)
@pytest.mark.parametrize(
    ("rows", "reason", "written"),
    [
        ("source", "SinkRouting", [("k", "v")]),
        # The key is lost: SQL ignores the case of a name, and Spark's writer does not.
        ("source.selectExpr('KEY', 'VALUE AS value')", "SinkColumns", [(None, "v")]),
        ("source.select('key', 'value', 'timestamp')", "SinkColumns", [("k", "v")]),
    ],
)
def test_code_is_warned_of_what_its_columns_do(
    rows: str,
    reason: str,
    written: list[tuple[str | None, str]],
    trigger: dict[str, Any],
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    """It passes on a destination, or makes a column that Spark's writer drops."""
    source, sink = topics.make(1), topics.make(1)
    flow = _by_python(topics, source, sink, rows, trigger)
    with running(flow, jvm, tmp_path) as driver:
        driver.wait_ready()
        failure = driver.last.last_failure
        assert failure is not None
        assert (failure.reason, failure.permanent) == (reason, False)
        wait_for("the record", lambda: _read(topics, sink) == written)


@pytest.mark.proves("write-a-stream.md#sink")
@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_two_columns_named_value_are_refused_before_anything_is_written(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark would write the first one, which is the old value."""
    source, sink = topics.make(1), topics.make(1)
    rows = "source.selectExpr('*', 'upper(CAST(value AS STRING)) AS value').drop('partition')"
    flow = _by_python(topics, source, sink, rows, trigger)
    with running(flow, jvm, tmp_path) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
    assert report.last_failure is not None
    assert report.last_failure.reason == "SinkColumns"
    assert "two columns named value" in report.last_failure.message
    assert _read(topics, sink) == []
    other = _by_python(topics, source, sink, rows.replace("'*'", "'key'"), trigger)
    with running(other, jvm, tmp_path):
        wait_for("the new value", lambda: _read(topics, sink) == [("k", "V")])


def _by_python(
    topics: Topics, source: str, sink: str, rows: str, trigger: dict[str, Any]
) -> ContinuousStream:
    """A stream over one record, `v` with the key `k`."""
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    if not _read(topics, source):
        producer.produce(source, b"v", b"k")
    assert producer.flush(30) == 0
    python = {"function": "rows:f", "inline": f"def f(source):\n    return {rows}\n"}
    what = {"topics": [source], "startingOffsets": "earliest"}
    return reading(topics, what, sink, transform={"python": python}, trigger=trigger)


def _read(topics: Topics, topic: str) -> list[tuple[str | None, str]]:
    """Key and value of each record."""
    found = TopicReader(topics.bootstrap).read(topic)
    return [(None if it.key() is None else it.key().decode(), it.value().decode()) for it in found]


@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_a_time_after_the_last_record(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The status names the option that helps, and the stream starts once there is a record."""
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(10))
    at = int(time.time() * 1000) + 1000
    options = {"startingTimestamp": str(at)}
    flow = reading(topics, {"topics": [source], "options": options}, sink, trigger=trigger)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        failure = driver.wait_failure("OptionInvalid").last_failure
        assert failure is not None
        assert f"{source}-0 and timestamp {at}" in failure.message
        assert "startingOffsetsByTimestampStrategy to latest" in failure.message
        wait_for("the time", lambda: time.time() * 1000 > at)
        topics.send(source, range(10, 20))
        topics.wait_received(sink, range(10, 20))
    assert set(topics.received(sink)) == set(range(10, 20))


@pytest.mark.proves("failures.md#the-topic-is-compacted-or-has-transactions")
@pytest.mark.parametrize("trigger", MOSTLY_BOTH_ENGINES)
def test_latest_before_an_open_transaction(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """An exactly-once producer nearly always has a transaction open. Its records come once it is
    committed, and until then they are neither lost nor a lag."""
    source, sink = topics.make(1), topics.make(1)
    options = {"Kafka.Isolation.Level": "read_committed"}  # Spark ignores the case
    flow = reading(topics, {"topics": [source], "options": options}, sink, trigger=trigger)
    producer = Producer(
        {
            "bootstrap.servers": topics.bootstrap,
            "transactional.id": source,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(30)

    def send(numbers: range) -> None:
        producer.begin_transaction()
        for number in numbers:
            producer.produce(source, str(number).encode())
        assert producer.flush(30) == 0

    send(range(10))
    producer.commit_transaction(30)
    send(range(10, 20))
    with running(flow, jvm, tmp_path) as driver:
        assert driver.wait_ready().last_failure is None
        producer.commit_transaction(30)
        send(range(20, 30))
        producer.commit_transaction(30)
        topics.wait_received(sink, range(10, 30))
        assert driver.last.last_failure is None
    assert set(topics.received(sink)) == set(range(10, 30))
