"""A record that the transform cannot process, with a real Spark and broker."""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import generate_latest

from penstock.contract.driver_report import QueryState
from penstock.driver.checkpoint.notes import Notes, NotesFile
from penstock.driver.jvm import Jvm
from penstock.driver.record_position import Position
from testkit.driver.in_process_driver import InProcessDriver, impatient, running
from testkit.kafka.brokers import two_brokers
from testkit.kafka.topic_reader import TopicReader
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import (
    ASYNC,
    AVAILABLE_NOW,
    BOTH_ENGINES,
    CONTINUOUS,
    MICRO_BATCH,
    MOSTLY_CONTINUOUS,
    REAL_TIME,
    changed,
    kafka_to_kafka,
    stream,
)
from testkit.wait import wait_for

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


@pytest.mark.proves("failures.md#the-transform-cannot-process-a-record")
@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH, ASYNC, REAL_TIME, AVAILABLE_NOW])
def test_the_record_is_named_at_the_first_failure(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, jvm_log: Path, tmp_path: Path
) -> None:
    source, sink = topics.make(2), topics.make(1)
    bad = send_with_one_bad(topics, source)
    flow = number_flow(topics, source, sink, trigger, transform=FAILS)
    logged = len(jvm_log.read_text())
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
    # Whose jobs have ended with it: Spark's continuous engine looks for them in vain.
    assert "Failed to cancel job group" not in jvm_log.read_text()[logged:]


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


@pytest.mark.proves("failures.md#the-transform-cannot-process-a-record")
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


@pytest.mark.proves(37)
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


@pytest.mark.proves(37)
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


# Each as (setting of the topic, what breaks it, what mends it).
FAULTS = {
    "compacted": ("cleanup.policy", "compact", "delete"),
    "too small": ("max.message.bytes", "100", "1048588"),
}


@pytest.mark.proves(37)
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
@pytest.mark.parametrize(
    "fault", ["deleted", "too small", pytest.param("compacted", marks=pytest.mark.full)]
)
def test_a_dead_letter_topic_that_takes_none_multiplies_no_record(
    fault: str, trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """While the stream runs. Two runs prove that the record is bad, and write the good ones again;
    then only the copy is tried, until it is made. A topic that is gone is seen before the second.
    """
    source, sink, letters = topics.make(2), topics.make(1), topics.make(1)
    flow = number_flow(topics, source, sink, trigger, with_dead_letters(letters), transform=FAILS)
    setting, broken, whole = FAULTS.get(fault, ("", "", ""))
    reason = "DeadLetterNotWritten" if setting else "TopicMissing"
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        topics.send(source, range(20), 1)
        topics.wait_received(sink, range(20))
        driver.wait_committed(20)
        if setting:
            topics.configure(letters, setting, broken)
        else:
            topics.delete(letters)
        check_that_it_waits(driver, topics, source, sink, letters, reason)
        if setting:
            topics.configure(letters, setting, whole)
        else:
            topics.make(1, letters)
        topics.wait_received(sink, range(520))
        driver.wait_committed(521)
    assert topics.received(letters) == {BAD: 1}
    assert max(topics.received(sink).values()) <= 3


@pytest.mark.proves(37)
@pytest.mark.full
@pytest.mark.parametrize("again", [False, True], ids=["retention", "created again"])
def test_a_record_that_is_gone_before_its_copy_is_made_is_no_dead_letter(
    again: bool, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Nor is another one at its position, in a topic that was created again."""
    source, sink, letters = topics.make(1), topics.make(1), topics.make(1)
    topics.configure(letters, "max.message.bytes", "100")
    topics.send(source, range(BAD, BAD + 1))
    of_source = {**with_dead_letters(letters), "failOnDataLoss": False}
    flow = number_flow(topics, source, sink, CONTINUOUS, of_source, transform=FAILS)
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        driver.wait_failure("DeadLetterNotWritten")
        if again:
            topics.delete(source)
            topics.make(1, source)
        else:
            topics.delete_before(source, {0: 1})
        topics.send(source, range(3))
        topics.wait_received(sink, range(3))
    assert topics.received(letters) == {}


@pytest.mark.proves(37)
@pytest.mark.full
@pytest.mark.timeout(480)
@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_a_dead_letter_topic_without_in_sync_replicas_multiplies_no_record(
    trigger: dict[str, Any], jvm: Jvm, tmp_path: Path
) -> None:
    with two_brokers() as (first, second):
        topics = Topics(f"{first.bootstrap},{second.bootstrap}")
        source, sink = topics.make(2, replicas=2), topics.make(1, replicas=2)
        letters = topics.make(1, replicas=2, config={"min.insync.replicas": "2"})
        # The batch engine asks a broker that has ended until the second, 60 s by default.
        soon = {"kafka.request.timeout.ms": "4000", "kafka.default.api.timeout.ms": "5000"}
        of_source = {**with_dead_letters(letters), "options": soon}
        flow = number_flow(topics, source, sink, trigger, of_source, transform=FAILS)
        with running(flow, jvm, tmp_path, impatient(flow)) as driver:
            topics.send(source, range(20), 1)
            topics.wait_received(sink, range(20))
            driver.wait_committed(20)
            second.kill()
            wait_for("the move", lambda: topics.leaders(source) == topics.leaders(sink) == {1})
            check_that_it_waits(driver, topics, source, sink, letters, "DeadLetterNotWritten")
            second.start()
            topics.wait_received(sink, range(520))
            driver.wait_committed(521)
        assert set(topics.received(letters)) == {BAD}
        assert max(topics.received(sink).values()) <= 4  # one for the broker that has ended


def check_that_it_waits(
    driver: InProcessDriver, topics: Topics, source: str, sink: str, letters: str, reason: str
) -> None:
    """Sends 500 good records and a bad one, whose copy cannot be made, and waits for this reason,
    until it was found several times."""
    topics.send(source, range(20, 520), 1)
    topics.send(source, range(BAD, BAD + 1), 0, keys=False)
    failed = driver.wait_failure(reason).last_failure
    assert failed is not None
    assert f"dead-letter topic {letters}" in failed.message
    assert "sink.kafka" not in failed.message
    known, copies = failures(driver, reason), topics.received(sink)
    assert max(copies.values()) <= 3
    driver.wait("found again", lambda _: failures(driver, reason) >= known + 5)
    assert topics.received(sink) == copies


def failures(driver: InProcessDriver, reason: str) -> float:
    """How many there were."""
    of, name = driver.metrics.registry, "penstock_driver_failures_total"
    either = [{"reason": reason, "permanent": it} for it in ("true", "false")]
    return sum(of.get_sample_value(name, labels) or 0.0 for labels in either)


@pytest.mark.proves(37)
def test_a_copy_that_was_not_noted_is_made_again(
    topics: Topics, jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash between the two: twice in the dead letters, and nothing is skipped. A driver
    that lives on only notes it, however long the checkpoint cannot be written.
    """
    source, sink, letters = topics.make(2), topics.make(1), topics.make(1)
    send_with_one_bad(topics, source)
    tried: list[Notes] = []
    write = NotesFile._write

    def without_letters(file: NotesFile, notes: Notes) -> None:
        if notes.dead_letters:
            tried.append(notes)
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, notes)

    dead = with_dead_letters(letters)
    flow = number_flow(topics, source, sink, CONTINUOUS, dead, transform=FAILS)
    with monkeypatch.context() as full:
        full.setattr(NotesFile, "_write", without_letters)
        with running(flow, jvm, tmp_path, impatient(flow)) as driver:
            driver.wait("noted in vain", lambda _: len(tried) >= 3)
        assert topics.received(letters) == {BAD: 1}
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        topics.wait_received(sink, range(1000))
        driver.wait_committed(1001)
    assert topics.received(letters) == {BAD: 2}


@pytest.mark.proves(37)
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


@pytest.mark.proves("how-to/dead-letters.md#when-it-does-not-help")
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


@pytest.mark.proves("how-to/dead-letters.md#when-it-does-not-help")
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


@pytest.mark.proves("how-to/dead-letters.md#read-them-again")
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
