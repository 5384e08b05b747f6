"""What `--feed` sends, where to and when, with a stand-in for Kafka's clients."""

from __future__ import annotations

import threading
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.local.errors import CommandError
from penstock.local.kafka import side_tasks, with_kafka
from penstock.local.kafka.feed import Feed, lines_of, send_all, send_lines
from penstock.local.kafka.side_tasks import SideTasks
from penstock.local.kafka.topics import partitions_to_feed
from penstock.local.kafka.with_kafka import check_feed
from penstock.local.tools import jars
from penstock.local.workspace import Workspace
from testkit.streams.streams import AVAILABLE_NOW, kafka_sink, kafka_source, stream

# Python's str.splitlines splits at each of these; JSON strings may contain most of them.
SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r"


class Clients:
    """Takes records as (partition, value); refuses the values in `refused`."""

    def __init__(self, partitions: int = 4, refused: str = "") -> None:
        self.records: list[tuple[int, str]] = []
        self.refused = refused
        producer = SimpleNamespace(ProducerRecord=lambda topic, number, key, line: (number, line))
        self.kafka = SimpleNamespace(clients=SimpleNamespace(producer=producer))
        self._partitions = range(partitions)

    def producer(self) -> Any:
        def send(record: tuple[int, str]) -> str:
            self.records.append(record)
            return record[1]

        def partitions(_: str) -> Any:
            return SimpleNamespace(size=lambda: len(self._partitions))

        return SimpleNamespace(send=send, partitionsFor=partitions, close=lambda: None)

    def result(self, line: str) -> None:
        """Of a future, which is the line itself here."""
        if line == self.refused:
            raise ValueError(line)

    def create_topics(self, _: object) -> None:
        """They exist."""


def _feed(lines: list[str], **more: Any) -> Feed:
    feed = Feed("in", lines, 1000.0, True, threading.Event(), **more)
    feed.start.set()
    return feed


@pytest.mark.parametrize("separator", SEPARATORS)
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    line = f'{{"text": "a{separator}b"}}'
    assert lines_of(f"{line}\n{line}\r\n\n  \n{line}".encode()) == [line, line, "  ", line]


def test_a_file_is_utf_8_on_every_machine() -> None:
    assert lines_of("żółw\n".encode()) == ["żółw"]
    with pytest.raises(UnicodeDecodeError):
        lines_of(b"\xff\n")


@pytest.mark.parametrize("send", [send_all, send_lines])
@pytest.mark.parametrize(("partitions", "used"), [((), [0, 1, 2]), ((2, 7), [2, 7])])
def test_each_line_goes_to_a_partition_that_is_read(
    send: Any, partitions: tuple[int, ...], used: list[int]
) -> None:
    clients, lines = Clients(3), [str(number) for number in range(30)]
    feed = _feed(lines, partitions=partitions)
    send(clients, feed, threading.Event())
    assert [value for _, value in clients.records] == lines
    assert sorted({number for number, _ in clients.records}) == used
    assert feed.done
    assert feed.sent == 30


@pytest.mark.parametrize("send", [send_all, send_lines])
def test_a_line_that_the_broker_refuses_is_an_error(send: Any) -> None:
    """Also if later ones are taken: it would be lost in silence."""
    with pytest.raises(ValueError, match="too long"):
        send(Clients(refused="too long"), _feed(["a", "too long", "b"]), threading.Event())


@pytest.mark.parametrize(
    ("source", "partitions"),
    [
        ({}, ()),
        ({"topics": None, "assign": {"in": [6, 0], "other": [1]}}, (0, 6)),
        ({"topics": None, "topicPattern": "i."}, ()),
    ],
    ids=["all", "assigned", "pattern"],
)
def test_the_partitions_to_feed(source: dict[str, Any], partitions: tuple[int, ...]) -> None:
    assert partitions_to_feed(stream(kafka_source(**source)).spec, "in") == partitions


def test_everything_is_sent_before_a_query_that_reads_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An availableNow stream: as many lines as there are, at any rate."""
    clients, lines = Clients(), [str(number) for number in range(1234)]
    monkeypatch.setattr(side_tasks, "KafkaClients", lambda *_: clients)
    broker: Any = SimpleNamespace(wait_until_ready=lambda: None, bootstrap="here", log=tmp_path)
    tasks = SideTasks(broker, {}, Feed("in", lines, 1.0, True, threading.Event(), (), True))
    jvm: Any = SimpleNamespace(gateway=None)
    with tasks.running(jvm):
        assert [value for _, value in clients.records] == lines


@pytest.mark.parametrize(
    ("source", "once", "words"),
    [
        ({"startingOffsets": "earliest"}, True, None),
        ({"startingOffsetsByPartition": {"in": {"0": -2, "1": 0}}}, True, None),
        ({"options": {"startingTimestamp": "1"}}, True, None),
        ({"startingOffsets": "earliest"}, False, "add --once"),
        ({"startingOffsets": "latest"}, True, "startingOffsets: earliest"),
        ({}, True, "startingOffsets: earliest"),
        ({"startingOffsetsByPartition": {"in": {"0": -2, "1": -1}}}, True, "earliest"),
    ],
)
def test_an_available_now_stream_must_be_able_to_read_the_whole_feed(
    source: dict[str, Any], once: bool, words: str | None
) -> None:
    """Streams with other triggers go on, and read what is sent later."""
    given = kafka_source(**{"startingOffsets": None, **source})
    check_feed(stream(given, kafka_sink()).spec, once)
    spec = stream(given, kafka_sink(), trigger=AVAILABLE_NOW).spec
    if words is None:
        check_feed(spec, once)
        return
    with pytest.raises(CommandError, match=words) as raised:
        check_feed(spec, once)
    assert raised.value.code == 2


def test_the_feed_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the options and the spec; the broker is a stand-in."""

    def nothing(*_: object) -> None:
        """Starts and stops nothing."""

    broker = SimpleNamespace(bootstrap="here:1", start_process=nothing, stop=nothing)
    monkeypatch.setattr(jars, "jar_folder", lambda *_: tmp_path)
    monkeypatch.setattr(with_kafka, "Broker", lambda *_: broker)
    (tmp_path / "lines").write_bytes("a\u2028b\nc".encode())
    options = Namespace(
        feed=tmp_path / "lines", once=True, partitions=4, rate=1.0, show=False, topic=[]
    )
    source = kafka_source(topics=None, assign={"in": [1]}, startingOffsets="earliest")
    given = stream(source, kafka_sink(), trigger=AVAILABLE_NOW)
    with with_kafka.with_kafka(options, given, Workspace(tmp_path), "java") as (_, tasks):
        feed = tasks.feed
    assert feed is not None
    assert feed.lines == ["a\u2028b", "c"]
    assert feed.partitions == (1,)
    assert feed.before_query
