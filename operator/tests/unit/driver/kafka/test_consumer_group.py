"""The thread that commits to the consumer group, over a broker that answers late or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from penstock.driver.failures import (
    BROKER_UNREACHABLE,
    KAFKA_AUTHORIZATION,
    DriverError,
    Failure,
)
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import consumer_group
from penstock.driver.kafka.consumer_group import ConsumerGroup, has_others, not_committed
from penstock.driver.kafka.offsets import Offsets
from testkit.streams.streams import kafka_source, stream
from testkit.wait import wait_for

GROUP = "fraud-flags"
FLOW = stream(kafka_source("kafka:9092", consumerGroup=GROUP))
US = "payments/numbers"


@dataclass
class Broker:
    """Stands for the brokers behind an admin client."""

    answers: threading.Event = field(default_factory=threading.Event)
    failure: Failure | None = None
    committed: list[Offsets] = field(default_factory=list)
    asked: int = 0
    made: int = 0
    clients: int = 0
    """Those of them that are open."""
    warning: Callable[[], Failure | None] = lambda: None
    said: list[bool] = field(default_factory=list)
    """Whether there was a warning, at each question."""

    def commit_to_group(self, group: str, offsets: Offsets, note: str) -> None:
        self.answers.wait()
        self.asked += 1
        self.said.append(self.warning() is not None)
        if self.failure is not None:
            raise DriverError(self.failure)
        assert (group, note) == (GROUP, US)
        self.committed.append(offsets)

    def group_notes(self, group: str) -> dict[tuple[str, int], str]:
        return {("in", 0): US}

    def close(self) -> None:
        self.clients -= 1

    def client(self, *_: object) -> Broker:
        self.made += 1
        self.clients += 1
        return self


@dataclass
class Stream:
    """Its committed and newest offsets, and the JVM's exit code."""

    offsets: tuple[Offsets, Offsets] | None = None
    exit_code: int | None = None
    gateway: object = None

    def commit(self, offset: int) -> None:
        self.offsets = {"in": {0: offset}}, {"in": {0: 99}}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    broker.answers.set()
    monkeypatch.setattr(consumer_group, "Admin", broker.client)
    monkeypatch.setattr(consumer_group, "INTERVAL_SECONDS", 0.005)
    return broker


@pytest.fixture
def of_stream() -> Stream:
    return Stream()


@pytest.fixture
def group(broker: Broker, of_stream: Stream) -> Iterator[ConsumerGroup]:
    jvm = cast(Jvm, of_stream)
    group = ConsumerGroup(jvm, FLOW, Path(), lambda: of_stream.offsets)
    yield group
    of_stream.exit_code = 0
    broker.answers.set()
    group.close()


def test_each_commit_is_shown_once_and_the_last_one_at_the_end(
    broker: Broker, of_stream: Stream, group: ConsumerGroup
) -> None:
    for offset in (3, 7):
        of_stream.commit(offset)
        wait_for("it is shown", lambda: {"in": {0: offset}} in broker.committed)  # noqa: B023
        time.sleep(0.05)
    of_stream.commit(8)
    group.close()
    assert broker.committed == [{"in": {0: offset}} for offset in (3, 7, 8)]
    assert broker.clients == 0


def test_what_does_not_move_is_committed_again(
    broker: Broker, of_stream: Stream, group: ConsumerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Kafka forgets it (offsets.retention.minutes)."""
    monkeypatch.setattr(consumer_group, "REFRESH_SECONDS", 0.02)
    of_stream.commit(3)
    wait_for("it is shown again", lambda: len(broker.committed) >= 3)
    assert broker.committed[:3] == [{"in": {0: 3}}] * 3


def test_a_broker_that_does_not_answer_delays_nobody(
    broker: Broker, of_stream: Stream, group: ConsumerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_group, "_CLOSE_SECONDS", 0.1)
    broker.answers.clear()
    of_stream.commit(3)
    wait_for("a question", lambda: broker.clients == 1)
    began = time.monotonic()
    group.close()
    assert time.monotonic() - began < 60  # else it would wait for ever
    assert group.warning is None


def test_an_outage_is_said_when_it_lasts_and_until_it_ends(
    broker: Broker, of_stream: Stream, group: ConsumerGroup
) -> None:
    """The source's monitor says it earlier, unless only the group's coordinator is away."""
    broker.failure, broker.warning = Failure(BROKER_UNREACHABLE, "no answer"), lambda: group.warning
    of_stream.commit(3)
    wait_for("a warning", lambda: True in broker.said)
    assert broker.said[:4] == [False, False, False, True]
    broker.failure = None
    wait_for("none", lambda: group.warning is None)
    assert broker.committed == [{"in": {0: 3}}]
    # A failure closes its client: the next one reads its credentials again.
    assert (broker.made, broker.clients) == (broker.asked, 1)


def test_a_refusal_is_said_at_once(
    broker: Broker, of_stream: Stream, group: ConsumerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_group, "INTERVAL_SECONDS", 60.0)
    broker.failure = Failure(KAFKA_AUTHORIZATION, "Group authorization failed.", permanent=True)
    of_stream.commit(3)
    wait_for("a warning", lambda: group.warning is not None)
    assert broker.asked == 1


def test_without_a_group_nothing_is_asked(broker: Broker, of_stream: Stream) -> None:
    of_stream.commit(3)
    jvm = cast(Jvm, of_stream)
    group = ConsumerGroup(jvm, stream(kafka_source()), Path(), lambda: of_stream.offsets)
    group.close()
    assert (group._thread, broker.asked) == (None, 0)


def test_only_offsets_of_others_count() -> None:
    """Of another topic in the group, and of one whose offset Kafka has forgotten, none are."""
    shown: Offsets = {"in": {0: 3, 1: 4}}
    assert not has_others({("in", 0): US, ("other", 0): "payments/other"}, shown, US)
    assert has_others({("in", 0): US, ("in", 1): "payments/other"}, shown, US)
    assert has_others({("in", 1): ""}, shown, US)  # a person, or a consumer that is gone


def test_the_command_that_grants_the_right() -> None:
    sasl = {
        "mechanism": "SCRAM-SHA-512",
        "username": "o'neill",
        "passwordSecret": {"name": "login", "key": "password"},
    }
    source = stream(kafka_source("a:1,b:2", consumerGroup="g$1", sasl=sasl)).spec.source.kafka
    assert source is not None
    refused = Failure(KAFKA_AUTHORIZATION, "Group authorization failed.", permanent=True)
    assert not_committed(source, "g$1", refused).message.endswith(
        "kafka-acls --bootstrap-server a:1,b:2 --add --allow-principal 'User:o'\"'\"'neill' "
        "--operation Read --group 'g$1'"
    )
