"""What runs beside the driver under --with-kafka: topics, a feed, and a look at what comes out.

Through the Kafka client in the driver's own JVM, so that nothing more has to be installed.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.driver.jvm import Jvm
from penstock.driver.logs import say
from penstock.local.kafka.broker import Broker
from penstock.local.view.rows import Row

_CALL_SECONDS = 30
_BEAT_SECONDS = 0.1
_END_SECONDS = 5.0


@dataclass
class Feed:
    """Lines to send to a topic, and how many were sent."""

    topic: str
    lines: Sequence[str]
    per_second: float
    once: bool
    begin: threading.Event
    """Set when it may begin: what comes before a stream that begins at the latest is not read."""
    sent: int = 0
    done: bool = False


@dataclass
class Company:
    """The broker and what it is used for."""

    broker: Broker
    topics: Mapping[str, int]
    feed: Feed | None = None
    show: str | None = None
    """The topic to print, if one."""
    stop: threading.Event = field(default_factory=threading.Event)

    def rows(self) -> tuple[Row, ...]:
        """What the view shows of it."""
        topics = ", ".join(f"{topic} ({count})" for topic, count in self.topics.items())
        kafka = self.broker.bootstrap if self.broker.running else f"gone: see {self.broker.log}"
        feed = self.feed
        fed = "" if feed is None else f"{feed.sent:,} lines into {feed.topic}"
        done = ", all of the file" if feed is not None and feed.done else ""
        return (("kafka", kafka), ("topics", topics), ("fed", fed + done))

    def running(self) -> None:
        """The query runs, and reads whatever comes from now on."""
        if self.feed is not None:
            self.feed.begin.set()

    @contextlib.contextmanager
    def beside(self, jvm: Jvm) -> Iterator[None]:
        """For the length of the driver's loop."""
        self.broker.wait()
        clients = _Clients(jvm.gateway, self.broker.bootstrap)
        clients.make_topics(self.topics)
        threads = []
        if self.show is not None:
            topic, ready = self.show, threading.Event()
            threads.append(self._thread("show", lambda: clients.show(topic, self.stop, ready)))
            # What is fed from now on is to be seen.
            ready.wait(_CALL_SECONDS)
        if self.feed is not None:
            feed = self.feed
            threads.append(self._thread("feed", lambda: clients.feed(feed, self.stop)))
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(_END_SECONDS)

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except Exception as error:  # the stream runs on without
                if not self.stop.is_set():
                    say(f"{name} has ended", logging.WARNING, error=repr(error))

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread


class _Clients:
    """Kafka's clients in the driver's JVM. Each method makes and closes its own."""

    def __init__(self, gateway: Any, bootstrap: str) -> None:
        self._jvm = gateway.jvm
        self._kafka = self._jvm.org.apache.kafka
        self._bootstrap = bootstrap

    def make_topics(self, topics: Mapping[str, int]) -> None:
        """Makes those that are missing."""
        admin = self._kafka.clients.admin.AdminClient.create(self._options())
        try:
            there = set(self._result(admin.listTopics().names()))
            missing = self._jvm.java.util.ArrayList()
            for topic in sorted(set(topics) - there):
                count = self._jvm.java.util.Optional.of(topics[topic])
                default = self._jvm.java.util.Optional.empty()
                missing.add(self._kafka.clients.admin.NewTopic(topic, count, default))
            self._result(admin.createTopics(missing).all())
        finally:
            admin.close()

    def feed(self, feed: Feed, stop: threading.Event) -> None:
        """Sends the lines at their rate, spread over the partitions, until they end or `stop`."""
        producer = self._kafka.clients.producer.KafkaProducer(
            self._options(**{"linger.ms": "0"}), *self._strings("Serializer")
        )
        try:
            partitions = producer.partitionsFor(feed.topic).size()
            while not feed.begin.wait(_BEAT_SECONDS):
                if stop.is_set():
                    return
            lines = iter(feed.lines) if feed.once else itertools.cycle(feed.lines)
            began = time.monotonic()
            while not stop.wait(_BEAT_SECONDS):
                due = int((time.monotonic() - began) * feed.per_second) - feed.sent
                # Not all at once after the machine has slept.
                due = min(due, int(feed.per_second) + 1)
                self._send(producer, feed, list(itertools.islice(lines, due)), partitions)
                if feed.once and feed.sent >= len(feed.lines):
                    feed.done = True
                    return
        finally:
            producer.close()

    def _send(self, producer: Any, feed: Feed, lines: Sequence[str], partitions: int) -> None:
        record, last = self._kafka.clients.producer.ProducerRecord, None
        for number, line in enumerate(lines, feed.sent):
            # Without a key, Kafka's own way is to stay with one partition for 16 KB.
            last = producer.send(record(feed.topic, number % partitions, None, line))
        if last is not None:
            self._result(last)
            feed.sent += len(lines)

    def show(self, topic: str, stop: threading.Event, ready: threading.Event) -> None:
        """Prints what comes into the topic from now on: the key, if there is one, and the value."""
        consumer = self._kafka.clients.consumer.KafkaConsumer(
            self._options(), *self._strings("Deserializer")
        )
        try:
            partitions = self._jvm.java.util.ArrayList()
            for number in range(consumer.partitionsFor(topic).size()):
                partitions.add(self._kafka.common.TopicPartition(topic, number))
            consumer.assign(partitions)
            consumer.seekToEnd(partitions)
            for partition in partitions:
                consumer.position(partition)
            ready.set()
            wait = self._jvm.java.time.Duration.ofMillis(200)
            while not stop.is_set():
                records = consumer.poll(wait).iterator()
                while records.hasNext():
                    record = records.next()
                    key = record.key()
                    print(*([] if key is None else [key]), record.value(), sep="\t", flush=True)  # noqa: T201
        finally:
            ready.set()
            consumer.close()

    def _options(self, **more: str) -> Any:
        options = self._jvm.java.util.HashMap()
        for name, value in {"bootstrap.servers": self._bootstrap, **more}.items():
            options.put(name, value)
        return options

    def _strings(self, kind: str) -> list[Any]:
        made = getattr(self._kafka.common.serialization, f"String{kind}")
        return [made(), made()]

    def _result(self, future: Any) -> Any:
        return future.get(_CALL_SECONDS, self._jvm.java.util.concurrent.TimeUnit.SECONDS)
