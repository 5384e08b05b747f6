"""`--with-kafka`: what is fed and shown, where to and when, with a stand-in for Kafka's clients."""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from penstock import cli
from penstock.driver import main
from penstock.driver.reporting.http_server import Health
from penstock.local import command
from penstock.local.kafka import clients, local_kafka
from penstock.local.kafka.broker import Broker, BrokerError
from penstock.local.kafka.clients import Feed, describe, lines_of, print_records, send_lines
from penstock.local.kafka.local_kafka import LocalKafka, with_kafka
from penstock.local.options import LocalKafkaOptions
from penstock.local.tools import jars
from penstock.local.workspace import Workspace
from testkit.streams.streams import AVAILABLE_NOW, kafka_sink, kafka_source, stream

# Python's str.splitlines splits at each of these; JSON strings may contain most of them.
SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r"


def java_error(name: str, message: str) -> Py4JJavaError:
    """As py4j raises it for a future's failure: the cause has the words, and the text an object."""

    def throwable(name: str, message: str, cause: Any) -> Any:
        return SimpleNamespace(
            _target_id="o1",
            getClass=lambda: SimpleNamespace(getSimpleName=lambda: name),
            getMessage=lambda: message,
            getCause=lambda: cause,
        )

    cause = throwable(name, message, None)
    return Py4JJavaError("calling o204.get.\n", throwable("ExecutionException", "", cause))


class Clients:
    """Takes records as (partition, value); what `fails` names fails with its error."""

    def __init__(self, partitions: int = 4, **fails: Exception) -> None:
        self.records: list[tuple[int, str]] = []
        self.fails = fails
        producer = SimpleNamespace(ProducerRecord=lambda topic, number, key, line: (number, line))
        self.kafka = SimpleNamespace(clients=SimpleNamespace(producer=producer))
        self._partitions = range(partitions)

    def producer(self) -> Any:
        def send(record: tuple[int, str]) -> tuple[int, str]:
            return record

        def partitions(_: str) -> Any:
            return SimpleNamespace(size=lambda: len(self._partitions))

        return SimpleNamespace(send=send, partitionsFor=partitions, close=lambda: None)

    def result(self, record: tuple[int, str]) -> None:
        """Of a future, which is the record itself here."""
        if error := self.fails.get(record[1]):
            raise error
        self.records.append(record)

    def create_topics(self, _: object) -> None:
        """They exist."""


def numbered(*lines: str) -> dict[int, str]:
    return dict(enumerate(lines, 1))


def a_feed(*lines: str, once: bool = True, **more: Any) -> Feed:
    feed = Feed("in", numbered(*lines), 1000.0, once, threading.Event(), **more)
    feed.start.set()
    return feed


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is logged, as JSON."""
    logged: list[str] = []
    for module in (clients, local_kafka):
        monkeypatch.setattr(
            module,
            "log_event",
            lambda message, _, **facts: logged.append(json.dumps([message, facts])),
        )
    return logged


@pytest.mark.parametrize("separator", SEPARATORS)
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    line = f'{{"text": "a{separator}b"}}'
    text = f"{line}\n{line}\r\n\n  \n{line}".encode()
    assert lines_of(text) == {1: line, 2: line, 4: "  ", 5: line}


def test_a_file_is_utf_8_on_every_machine() -> None:
    assert lines_of("żółw\n".encode()) == {1: "żółw"}
    with pytest.raises(UnicodeDecodeError):
        lines_of(b"\xff\n")


@pytest.mark.parametrize("before_query", [True, False])
@pytest.mark.parametrize(("partitions", "used"), [((), [0, 1, 2]), ((2, 7), [2, 7])])
def test_each_line_goes_to_a_partition_that_is_read(
    before_query: bool, partitions: tuple[int, ...], used: list[int]
) -> None:
    kafka, lines = Clients(3), [str(number) for number in range(30)]
    feed = a_feed(*lines, partitions=partitions, before_query=before_query)
    send_lines(kafka, feed, threading.Event())  # type: ignore[arg-type]
    assert [value for _, value in kafka.records] == lines
    assert sorted({number for number, _ in kafka.records}) == used
    assert feed.done
    assert str(feed) == "30 lines sent to in, end of the file"


@pytest.mark.parametrize("before_query", [True, False])
def test_a_line_that_is_too_long_fails_alone_and_is_named(
    before_query: bool, warnings: list[str]
) -> None:
    """By its number and in Kafka's words; the others are sent."""
    refusal = java_error("RecordTooLargeException", "1200000 bytes")
    kafka = Clients(long=refusal)
    feed = a_feed("a", "long", "b", before_query=before_query)
    send_lines(kafka, feed, threading.Event())  # type: ignore[arg-type]
    assert [value for _, value in kafka.records] == ["a", "b"]
    assert str(feed) == "3 lines sent to in, 1 of them refused: see the log, end of the file"
    (warning,) = warnings
    assert warning == json.dumps(
        ["line 2 of --feed was not sent", {"error": "RecordTooLargeException: 1200000 bytes"}]
    )


def test_a_refused_line_is_named_once_however_often_it_is_sent(warnings: list[str]) -> None:
    stop, rounds = threading.Event(), 0

    class Refusing(Clients):
        def result(self, record: tuple[int, str]) -> None:
            nonlocal rounds
            rounds += 1
            if rounds > 20:
                stop.set()
            raise java_error("InvalidRecordException", "one word")

    send_lines(Refusing(), a_feed("a", "b", once=False), stop)  # type: ignore[arg-type]
    assert len(warnings) == 2


def test_a_task_that_fails_says_why_in_javas_words(warnings: list[str]) -> None:
    """The text of a Py4JJavaError names a Java object. The stream runs on without the feed."""
    kafka = Clients(a=java_error("TimeoutException", "30 s"))
    with tasks(kafka, feed=a_feed("a")):
        deadline = time.monotonic() + 10
        while not warnings and time.monotonic() < deadline:
            time.sleep(0.01)
    assert warnings == [json.dumps(["feed stopped", {"error": "TimeoutException: 30 s"}])]
    assert describe(ValueError("x")) == "ValueError: x"


def tasks(kafka: Any, **more: Any) -> AbstractContextManager[LocalKafka]:
    """The tasks of a broker that runs, with these clients."""
    broker: Any = SimpleNamespace(wait_until_ready=lambda: None, bootstrap="here")
    local = LocalKafka(broker, {}, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_kafka, "KafkaClients", lambda *_: kafka)
        running = local.running(SimpleNamespace(gateway=None))  # type: ignore[arg-type]
        running.__enter__()

    class Running(nullcontext[LocalKafka]):
        def __exit__(self, *error: Any) -> None:
            running.__exit__(*error)

    return Running(local)


def test_everything_is_sent_before_a_query_that_reads_what_is_there() -> None:
    """An availableNow stream: as many lines as there are, at any rate."""
    kafka, lines = Clients(), [str(number) for number in range(1234)]
    feed = Feed("in", numbered(*lines), 1.0, True, threading.Event(), (), True)
    with tasks(kafka, feed=feed):
        assert [value for _, value in kafka.records] == lines


def test_the_feed_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the options and the spec; the broker is a stand-in."""

    def nothing(*_: object) -> None:
        """Starts and stops nothing."""

    broker = SimpleNamespace(bootstrap="here:1", start_process=nothing, stop=nothing)
    monkeypatch.setattr(jars, "jar_folder", lambda *_: tmp_path)
    monkeypatch.setattr(local_kafka, "Broker", lambda *_: broker)
    (tmp_path / "lines").write_bytes("a\u2028b\nc".encode())
    options = LocalKafkaOptions(feed=tmp_path / "lines", rate=1.0, once=True)
    source = kafka_source(topics=None, assign={"in": [1]}, startingOffsets="earliest")
    given = stream(source, kafka_sink(), trigger=AVAILABLE_NOW)
    with with_kafka(options, given, Workspace(tmp_path), "java") as (_, local):
        feed = local.feed
    assert feed is not None
    assert feed.lines == {1: "a\u2028b", 2: "c"}
    assert feed.partitions == (1,)
    assert feed.before_query


# --- show ---


class JavaList(list[Any]):
    """As py4j gives it to Python."""

    add = list.append


class Consumer:
    """Has records in one partition, and gives out two at each poll."""

    def __init__(self, records: list[tuple[str | None, str | None]], end: int) -> None:
        self._records, self._at, self._end = records, 0, end

    def partitionsFor(self, _: str) -> Any:
        return SimpleNamespace(size=lambda: 1)

    def assign(self, _: object) -> None: ...

    def seekToEnd(self, _: object) -> None: ...

    def close(self) -> None: ...

    def position(self, _: object) -> int:
        return self._at

    def endOffsets(self, _: object) -> Any:
        return SimpleNamespace(get=lambda _: self._end, keySet=lambda: [0])

    def poll(self, _: object) -> Any:
        polled = self._records[self._at : self._at + 2]
        self._at += len(polled)
        left = [
            SimpleNamespace(key=lambda key=key: key, value=lambda value=value: value)
            for key, value in polled
        ]
        iterator = SimpleNamespace(hasNext=lambda: bool(left), next=lambda: left.pop(0))
        return SimpleNamespace(iterator=lambda: iterator)


def show(*records: tuple[str | None, str | None], end: int) -> None:
    consumer = Consumer(list(records), end)
    jvm = SimpleNamespace(
        java=SimpleNamespace(
            util=SimpleNamespace(ArrayList=JavaList),
            time=SimpleNamespace(Duration=SimpleNamespace(ofMillis=lambda _: None)),
        )
    )
    kafka: Any = SimpleNamespace(
        consumer=lambda: consumer,
        kafka=SimpleNamespace(common=SimpleNamespace(TopicPartition=lambda *_: 0)),
        jvm=jvm,
    )
    stop, ready = threading.Event(), threading.Event()
    stop.set()
    print_records(kafka, "out", stop, ready)
    assert ready.is_set()


def test_records_that_are_there_at_the_end_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """An availableNow stream ends as soon as it has written them."""
    show(*[(None, f"record {number}") for number in range(7)], (None, "later"), end=7)
    assert capsys.readouterr().out.splitlines()[:7] == [f"record {each}" for each in range(7)]


def test_a_tombstone_is_null_and_no_text_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    show(("gone", None), ("key", ""), (None, None), end=3)
    assert capsys.readouterr().out == "gone\tnull\nkey\t\nnull\n"


def test_a_broker_that_is_gone_is_not_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_SILENCE_SECONDS", 0.01)
    show((None, "a"), end=9)
    assert capsys.readouterr().out == "a\n"


@pytest.mark.parametrize("completed", [True, False])
def test_only_a_completed_stream_waits_for_the_last_record(
    completed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C has to end the command in time."""
    printed, may_end = threading.Event(), threading.Event()

    def print_slowly(_: Any, topic: str, stop: threading.Event, ready: threading.Event) -> None:
        ready.set()
        stop.wait()
        may_end.wait(0.5 if completed else 30)
        printed.set()

    monkeypatch.setattr(local_kafka, "print_records", print_slowly)
    with tasks(Clients(), show="out", _end_seconds=0.01) as local:
        if completed:
            local.on_query_completed()
    assert printed.is_set() is completed
    may_end.set()


# --- a broker that does not start ---


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[LocalKafka]:
    """With a broker that ends at once."""
    java = tmp_path / "java"
    java.write_text(
        f"#!{sys.executable}\nprint('line 1\\nthe disk is full')\nraise SystemExit(1)\n"
    )
    java.chmod(0o755)
    broker = Broker(tmp_path / "checkpoint.kafka", tmp_path, str(java))
    broker.start_process()
    yield LocalKafka(broker, {})
    broker.stop()


def as_the_driver(*given: Any) -> int:
    """Opens the tasks, and makes an exit code of any exception."""
    running: Callable[[Any], AbstractContextManager[object]] = given[3]
    with pytest.raises(BrokerError), running(SimpleNamespace()):
        raise AssertionError("the broker runs")
    return 1


def test_the_command_ends_with_the_end_of_the_brokers_log(
    broken: LocalKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The driver itself reports only the first line of an exception."""
    given = stream(kafka_source(), kafka_sink())
    (tmp_path / "stream.yaml").write_text(given.to_yaml())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(main, "run", as_the_driver)
    monkeypatch.setattr(command, "use_utc", lambda: None)
    monkeypatch.setattr(command, "require_java", lambda: "java")
    monkeypatch.setattr(command, "with_kafka", lambda *_: nullcontext((given, broken)))
    monkeypatch.setattr(jars, "kafka_class_path", lambda *_: [])
    assert cli.main(["run", "--with-kafka", "stream.yaml"]) == 2
    assert f"{broken.broker.log}:\nline 1\nthe disk is full" in capsys.readouterr().err


def test_the_side_tasks_have_their_own_limits_of_time() -> None:
    """The hang guard would end a broker's start, or a long feed, without its reason."""
    health = Health(iteration_timeout=60.0)
    health.last_iteration_at = before = time.monotonic() - 50
    seen = []

    class Tasks(nullcontext[None]):
        def __enter__(self) -> None:
            seen.append(health.iteration_timeout)

        def __exit__(self, *_: object) -> None:
            seen.append(health.iteration_timeout)

    with main._without_time_limit(health, Tasks()):
        assert health.iteration_timeout == 60.0
        assert health.last_iteration_at > before + 40
    assert seen == [math.inf, math.inf]
