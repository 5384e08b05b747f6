"""Kafka's clients in the driver's own JVM, so that nothing more has to be installed.

They create topics, send the lines of a file (--feed) and print the records of a topic (--show).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.driver.logs import log_event

CALL_SECONDS = 30
_INTERVAL_SECONDS = 0.1
_AT_ONCE = 500
_POLL_MILLISECONDS = 200
# A broker that has ended sends nothing more.
_SILENCE_SECONDS = 3.0
# Of the record alone: the next one may be sent.
_REFUSALS = ("RecordTooLargeException", "InvalidRecordException")


class KafkaClients:
    """Creates clients of one broker; the caller closes each."""

    def __init__(self, gateway: Any, bootstrap: str) -> None:
        self.jvm = gateway.jvm
        self.kafka = self.jvm.org.apache.kafka
        self._bootstrap = bootstrap

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Creates the topics that do not exist, each with its number of partitions."""
        with contextlib.closing(self.admin()) as admin:
            existing = set(self.result(admin.listTopics().names()))
            missing = self.jvm.java.util.ArrayList()
            for topic in sorted(set(topics) - existing):
                missing.add(self.new_topic(topic, topics[topic]))
            self.result(admin.createTopics(missing).all())

    def admin(self) -> Any:
        """An admin client."""
        return self.kafka.clients.admin.AdminClient.create(self._options())

    def new_topic(
        self, topic: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> Any:
        """Kafka's NewTopic, with the broker's own number of replicas."""
        optional, options = self.jvm.java.util.Optional, self.jvm.java.util.HashMap()
        for name, text in (config or {}).items():
            options.put(name, text)
        new = self.kafka.clients.admin.NewTopic(topic, optional.of(partitions), optional.empty())
        return new.configs(options)

    def producer(self, of: str = "String") -> Any:
        """A producer of such keys and values (Kafka's serializers by name) that sends at once."""
        return self.kafka.clients.producer.KafkaProducer(
            self._options(**{"linger.ms": "0"}), *self._serde(of, "Serializer")
        )

    def consumer(self, of: str = "String", **options: str) -> Any:
        """A consumer of such keys and values, without a group."""
        return self.kafka.clients.consumer.KafkaConsumer(
            self._options(**options), *self._serde(of, "Deserializer")
        )

    def result(self, future: Any) -> Any:
        """The result of a Java future; raises Py4JJavaError after 30 seconds."""
        return future.get(CALL_SECONDS, self.jvm.java.util.concurrent.TimeUnit.SECONDS)

    def _options(self, **more: str) -> Any:
        options = self.jvm.java.util.HashMap()
        for name, value in {"bootstrap.servers": self._bootstrap, **more}.items():
            options.put(name, value)
        return options

    def _serde(self, of: str, kind: str) -> list[Any]:
        serde = getattr(self.kafka.common.serialization, f"{of}{kind}")
        return [serde(), serde()]


def describe(error: Exception) -> str:
    """Class and message of an error, in Java's words if it comes from there.

    The text of a Py4JJavaError names a Java object and not what happened.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return f"{type(error).__name__}: {error}"
    cause = error.java_exception
    try:
        while (deeper := cause.getCause()) is not None:
            cause = deeper
        return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    except (Py4JError, OSError):
        return "the JVM has ended"


# --- feed ---


@dataclass
class Feed:
    """Lines to send to a topic, and what has become of them."""

    topic: str
    lines: Mapping[int, str]
    """By their numbers in the file."""
    per_second: float
    once: bool
    """Whether to end after the last line instead of starting again."""
    start: threading.Event
    """Set when sending may start: a stream that starts at the latest offsets must run first."""
    partitions: tuple[int, ...] = ()
    """Those to send to: a record in another one would not be read. Empty: all of the topic."""
    before_query: bool = False
    """Whether to send everything, once and at any rate, before the query starts: it reads only what
    is there by then."""
    position: int = 0
    """Lines handed to Kafka so far, over all rounds."""
    refused: set[int] = field(default_factory=set)
    """The numbers of lines that Kafka does not take."""
    done: bool = False

    def __str__(self) -> str:
        refused = f", {len(self.refused)} of them refused: see the log" if self.refused else ""
        end = ", end of the file" if self.done else ""
        return f"{self.position:,} lines sent to {self.topic}{refused}{end}"


def lines_of(text: bytes) -> dict[int, str]:
    """The lines of a file by number, without empty ones. Raises UnicodeDecodeError.

    Only a line feed ends a line. Each of the other characters at which Python's splitlines splits
    may be inside a JSON string.

    >>> lines_of(b"a\\r\\n\\nb")
    {1: 'a', 3: 'b'}
    """
    lines = enumerate(text.decode("utf-8").split("\n"), 1)
    return {number: whole for number, line in lines if (whole := line.removesuffix("\r"))}


def send_lines(clients: KafkaClients, feed: Feed, stop: threading.Event) -> None:
    """Sends the lines, spread over the partitions, until they end or `stop` is set."""
    producer = clients.producer()
    try:
        partitions = feed.partitions or range(producer.partitionsFor(feed.topic).size())
        file = feed.lines.items()
        lines = iter(file) if feed.once else itertools.cycle(file)
        for count in _due(feed, stop):
            _send(clients, producer, feed, list(itertools.islice(lines, count)), partitions)
            if feed.once and feed.position >= len(feed.lines):
                feed.done = True
                return
    finally:
        producer.close()


def _due(feed: Feed, stop: threading.Event) -> Iterator[int]:
    """How many lines to send now, again and again until `stop` is set."""
    while feed.before_query and not stop.is_set():
        yield _AT_ONCE
    while not feed.start.wait(_INTERVAL_SECONDS):
        if stop.is_set():
            return
    started = time.monotonic()
    while not stop.wait(_INTERVAL_SECONDS):
        due = int((time.monotonic() - started) * feed.per_second) - feed.position
        # At most one second's worth, also after the machine was suspended.
        yield max(0, min(due, int(feed.per_second) + 1))


def _send(
    clients: KafkaClients,
    producer: Any,
    feed: Feed,
    lines: Sequence[tuple[int, str]],
    partitions: Sequence[int],
) -> None:
    record = clients.kafka.clients.producer.ProducerRecord
    # Without a key, Kafka's default partitioner stays with one partition for 16 KB.
    futures = [
        (number, producer.send(record(feed.topic, partitions[at % len(partitions)], None, line)))
        for at, (number, line) in enumerate(lines, feed.position)
    ]
    feed.position += len(lines)
    # Each, because a line that is refused, such as one that is too long, fails alone.
    for number, future in futures:
        try:
            clients.result(future)
        except Exception as error:
            reason = describe(error)
            if not reason.startswith(_REFUSALS):
                raise
            if number not in feed.refused:
                feed.refused.add(number)
                log_event(f"line {number} of --feed was not sent", logging.WARNING, error=reason)


# --- show ---


def print_records(
    clients: KafkaClients, topic: str, stop: threading.Event, ready: threading.Event
) -> None:
    """Prints new records on stdout: the key, if there is one, a tab and the value.

    Sets `ready` once its start position is fixed, so that no later record is missed. When `stop`
    is set, it prints on to the records that are in the topic by then.
    """
    consumer = clients.consumer()
    try:
        partitions = clients.jvm.java.util.ArrayList()
        for number in range(consumer.partitionsFor(topic).size()):
            partitions.add(clients.kafka.common.TopicPartition(topic, number))
        consumer.assign(partitions)
        consumer.seekToEnd(partitions)
        for partition in partitions:
            consumer.position(partition)
        ready.set()
        timeout = clients.jvm.java.time.Duration.ofMillis(_POLL_MILLISECONDS)
        while not stop.is_set():
            _print(consumer.poll(timeout))
        ends = consumer.endOffsets(partitions)
        deadline = time.monotonic() + _SILENCE_SECONDS
        while _is_behind(consumer, ends) and time.monotonic() < deadline:
            if _print(consumer.poll(timeout)):
                deadline = time.monotonic() + _SILENCE_SECONDS
    finally:
        ready.set()
        consumer.close()


def _print(polled: Any) -> int:
    """Prints the records, and returns how many there are."""
    records, count = polled.iterator(), 0
    while records.hasNext():
        record = records.next()
        key, value = record.key(), record.value()
        # A record without a value, a tombstone, as Kafka's console consumer shows it.
        shown = "null" if value is None else value
        print(*([] if key is None else [key]), shown, sep="\t", flush=True)  # noqa: T201
        count += 1
    return count


def _is_behind(consumer: Any, ends: Any) -> bool:
    return any(consumer.position(partition) < ends.get(partition) for partition in ends.keySet())
