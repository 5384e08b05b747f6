"""A record that the transform cannot process, with a real Spark and broker."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import generate_latest

from penstock.contract.driver_report import QueryState
from penstock.driver.checkpoint import left_out
from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.jvm import Jvm
from penstock.driver.record_position import Position
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topic_reader import TopicReader
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import (
    ASYNC,
    AVAILABLE_NOW,
    BOTH_ENGINES,
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    changed,
    kafka_to_kafka,
    stream,
)

BAD = 4_111_111
# Fails over the record, and would quote it.
FAILS: dict[str, Any] = {
    "sql": f"SELECT key, IF(CAST(value AS STRING) = '{BAD}', raise_error(CAST(value AS STRING)), "
    "CAST(value AS STRING)) AS value FROM source"
}


def send_with_one_bad(topics: Topics, source: str, count: int = 1000) -> Position:
    """Sends so many numbers, with a bad one among them; returns where that is."""
    topics.send(source, range(count // 2))
    topics.send(source, range(BAD, BAD + 1))
    topics.send(source, range(count // 2, count))
    ((partition, offset),) = (at for at, n in topics.placed(source).items() if n == BAD)
    return Position(source, partition, offset)


@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH, ASYNC, REAL_TIME, AVAILABLE_NOW])
def test_the_record_is_named_at_the_first_failure(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(2), topics.make(1)
    bad = send_with_one_bad(topics, source)
    flow = number_flow(topics, source, sink, trigger, transform=FAILS)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        report = driver.wait_failure("UserRaisedException")
        first = next(it.last_failure for it in driver.reports if it.last_failure is not None)
        assert f"The record is {bad} (topic/partition@offset)." in first.message
        assert first.record == str(bad)
        page = generate_latest(driver.metrics.registry).decode()
        of = f'{{partition="{bad.partition}",topic="{source}"}}'
        assert f"penstock_driver_failed_record_offset{of} {bad.offset}" in page
        assert report.last_failure is not None
        assert str(BAD) not in report.last_failure.message.replace(str(bad), "")


@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_the_record_with_a_null_topic_is_named_at_the_first_failure(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(2), topics.make(1)
    bad = send_with_one_bad(topics, source)
    null = f"CASE WHEN CAST(value AS STRING) <> '{BAD}' THEN '{sink}' END AS topic"
    by_column = {"kafka": {"bootstrapServers": topics.bootstrap}}
    sql = {"sql": f"SELECT value, {null} FROM source"}
    flow = stream(
        **kafka_to_kafka(topics.bootstrap, source, sink, trigger, sink=by_column, transform=sql)
    )
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        driver.wait_failure("KafkaNullTopicInData")
        first = next(it.last_failure for it in driver.reports if it.last_failure is not None)
    assert first.record == str(bad)
    assert f"The record is {bad} (topic/partition@offset)." in first.message
    assert str(BAD) not in first.message.replace(str(bad), "")


# With so much more for each record that the pipe to Python is full while records are left.
IN_PYTHON = f"""
from pyspark.sql import functions

@functions.udf("string")
def checked(value, more):
    if value == "{BAD}":
        raise ValueError(value)
    return value

def f(source):
    more = functions.repeat(functions.lit("x"), functions.lit(50000))
    return source.select("key", checked(source.value.cast("string"), more).alias("value"))
"""


def test_a_function_that_reads_ahead_names_no_record(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Python gets many records at once: the last of them is no proof, however often it is."""
    source, sink = topics.make(1), topics.make(1)
    # So many that the task is still reading, and has one in hand, when Python fails.
    bad = send_with_one_bad(topics, source, 100_000)
    transform = {"python": {"function": "checked:f", "inline": IN_PYTHON}}
    conf = {"spark.sql.execution.arrow.maxRecordsPerBatch": "10"}
    flow = number_flow(topics, source, sink, MICRO_BATCH, transform=transform, sparkConf=conf)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        driver.wait("three restarts", lambda report: report.query_restarts >= 3)
        failures = [it.last_failure for it in driver.reports if it.last_failure is not None]
    assert {it.record for it in failures} == {None}
    message = failures[-1].message
    found = re.search(r"The record is (\S+) \(topic/partition@offset\), or was read", message)
    assert found is not None
    assert Position.parse(found[1]).offset > bad.offset


def with_dead_letters(topic: str, **more: int) -> dict[str, Any]:
    """More fields of the source."""
    return {"deadLetters": {"topic": topic, **more}}


def messages(topics: Topics, topic: str) -> list[Message]:
    return TopicReader(topics.bootstrap).read(topic)


@pytest.mark.parametrize("count", [1000, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH, ASYNC, REAL_TIME, AVAILABLE_NOW])
def test_a_bad_record_becomes_a_dead_letter_and_all_others_pass(
    trigger: dict[str, Any], count: int, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink, letters = topics.make(2), topics.make(1), topics.make(1)
    bad = send_with_one_bad(topics, source, count)
    flow = number_flow(topics, source, sink, trigger, with_dead_letters(letters), transform=FAILS)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        received = topics.wait_received(sink, range(count))
        report = driver.wait_failure("DeadLetter")
        driver.wait_committed(count + 1)
        page = generate_latest(driver.metrics.registry).decode()
    assert "penstock_driver_dead_letters_total 1.0" in page
    assert BAD not in received
    assert report.last_failure is not None
    assert report.last_failure.record == str(bad)
    assert str(bad) in report.last_failure.message
    (letter,) = messages(topics, letters)
    assert (letter.key(), letter.value()) == (str(BAD).encode(), str(BAD).encode())
    headers = {name: value.decode() for name, value in letter.headers()}
    assert headers["__penstock.errors.topic"] == source
    assert headers["__penstock.errors.partition"] == str(bad.partition)
    assert headers["__penstock.errors.offset"] == str(bad.offset)
    assert headers["__penstock.errors.stream"] == "payments/numbers"
    assert headers["__penstock.errors.reason"] == "UserRaisedException"
    assert int(headers["__penstock.errors.timestamp"]) <= letter.timestamp()[1]


@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_a_transform_that_fails_over_each_record_stops_at_the_bound(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink, letters = topics.make(2), topics.make(1), topics.make(1)
    topics.send(source, range(1000))
    fails = {
        "sql": "SELECT CAST(raise_error(CAST(value AS STRING)) AS STRING) AS value FROM source"
    }
    bound = with_dead_letters(letters, maxPerMinute=2)
    flow = number_flow(topics, source, sink, trigger, bound, transform=fails)
    policy = replace(impatient(flow), recheck_interval=600.0)
    with running(flow, jvm, tmp_path, policy) as driver:
        report = driver.wait_failure("TooManyDeadLetters")
        assert report.state is QueryState.FAILED
        assert report.last_failure is not None
        assert report.last_failure.record is not None
        assert len(topics.received(letters)) == 2
    assert topics.received(sink) == {}


def test_a_copy_that_was_not_noted_is_made_again(
    topics: Topics, jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between the two: twice in the dead letters, and nothing is skipped."""
    source, sink, letters = topics.make(2), topics.make(1), topics.make(1)
    send_with_one_bad(topics, source)
    save, calls = left_out.save, itertools.count()

    def crash_at_first(files: CheckpointFiles, noted: left_out.LeftOut) -> None:
        assert next(calls) > 0, "a crash"
        save(files, noted)

    monkeypatch.setattr(left_out, "save", crash_at_first)
    dead = with_dead_letters(letters)
    flow = number_flow(topics, source, sink, CONTINUOUS, dead, transform=FAILS)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        topics.wait_received(sink, range(1000))
        driver.wait_committed(1001)
    assert topics.received(letters) == {BAD: 2}


def test_a_topic_that_was_created_again_is_read_whole(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The positions of the old topic's dead letters mean nothing in the new one."""
    source, sink, letters = topics.make(1), topics.make(1), topics.make(1)
    topics.send(source, range(BAD, BAD + 1))
    of_source = {**with_dead_letters(letters), "failOnDataLoss": False}
    flow = number_flow(topics, source, sink, MICRO_BATCH, of_source, transform=FAILS)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        driver.wait_committed(1)
    topics.delete(source)
    topics.make(1, source)
    topics.send(source, range(3))
    with running(flow, jvm, tmp_path, impatient(flow)):
        topics.wait_received(sink, range(3))


@pytest.mark.parametrize(
    ("of_source", "reason", "words"),
    [
        ({"deadLetters": {"topic": "no-such"}}, "TopicMissing", "dead-letter topic no-such does"),
        (
            {"deadLetters": {"topic": "in-dead"}, "topics": ..., "topicPattern": "in-.*"},
            "DeadLettersAreRead",
            "in-dead matches topicPattern",
        ),
    ],
)
def test_a_topic_that_cannot_take_dead_letters_is_refused_before_anything_runs(
    of_source: dict[str, Any], reason: str, words: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    if "topicPattern" in of_source:
        topics.make(1, "in-dead")
    spec = kafka_to_kafka(topics.bootstrap, topics.make(1), topics.make(1), CONTINUOUS)
    for field, value in of_source.items():
        spec = changed(spec, f"source.kafka.{field}", value)
    flow = stream(**spec)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        failure = driver.wait_failure(reason).last_failure
        assert not driver.runtime.has_session
    assert failure is not None
    assert words in failure.message
    assert failure.permanent


@pytest.mark.parametrize(
    "fields",
    [
        {"transform": {"python": {"function": "checked:f", "inline": IN_PYTHON}}},
        {"sink": {"custom": {"format": "noop"}}},
    ],
    ids=["Python", "custom sink"],
)
def test_dead_letters_of_a_query_that_reads_ahead_are_refused(
    fields: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    dead, source = with_dead_letters(topics.make(1)), topics.make(1)
    flow = stream(
        **{**kafka_to_kafka(topics.bootstrap, source, source, MICRO_BATCH, dead), **fields}
    )
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        failure = driver.wait_failure("DeadLettersNotPossible").last_failure
    assert failure is not None
    assert failure.permanent


def test_dead_letters_are_read_again_by_a_corrected_stream(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """docs/how-to/dead-letters.md."""
    source, sink, letters = topics.make(2), topics.make(1), topics.make(1)
    send_with_one_bad(topics, source)
    dead = with_dead_letters(letters)
    flow = number_flow(topics, source, sink, AVAILABLE_NOW, dead, transform=FAILS)
    with running(flow, jvm, tmp_path / "stream", impatient(flow)) as driver:
        driver.wait("completed", lambda report: report.state is QueryState.COMPLETED)
    corrected = {"sql": "SELECT key, value, headers FROM source"}
    headers = {"includeHeaders": True}
    again = number_flow(topics, letters, sink, AVAILABLE_NOW, headers, transform=corrected)
    with running(again, jvm, tmp_path / "again", impatient(again)) as driver:
        driver.wait("completed", lambda report: report.state is QueryState.COMPLETED)
    received = topics.received(sink)
    assert set(received) == {*range(1000), BAD}
    assert received[BAD] == 1
