"""`--feed`: sends the lines of a file to a topic."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.local.kafka.clients import KafkaClients

_INTERVAL_SECONDS = 0.1
_AT_ONCE = 500


@dataclass
class Feed:
    """Lines to send to a topic, and how many have been sent."""

    topic: str
    lines: Sequence[str]
    per_second: float
    once: bool
    """Whether to end after the last line instead of starting again."""
    start: threading.Event
    """Set when sending may start: a stream that starts at the latest offsets must run first."""
    partitions: tuple[int, ...] = ()
    """Those to send to: a record in another one would not be read. Empty: all of the topic."""
    before_query: bool = False
    """Whether to send everything before the query starts, which reads what is there by then."""
    sent: int = 0
    done: bool = False


def lines_of(text: bytes) -> list[str]:
    """The lines of a file, without empty ones. Raises UnicodeDecodeError.

    Only a line feed ends a line. Each of the other characters at which Python's splitlines splits
    may be inside a JSON string.
    """
    lines = (line.removesuffix("\r") for line in text.decode("utf-8").split("\n"))
    return [line for line in lines if line]


def send_all(clients: KafkaClients, feed: Feed, stop: threading.Event) -> None:
    """Sends each line once, as fast as the broker takes them; ends early if `stop` is set."""
    producer = clients.producer()
    try:
        partitions = _partitions(producer, feed)
        lines = iter(feed.lines)
        while not stop.is_set() and (some := list(itertools.islice(lines, _AT_ONCE))):
            _send(clients, producer, feed, some, partitions)
        feed.done = feed.sent == len(feed.lines)
    finally:
        producer.close()


def send_lines(clients: KafkaClients, feed: Feed, stop: threading.Event) -> None:
    """Sends the lines at the rate, spread over the partitions, until they end or `stop` is set."""
    producer = clients.producer()
    try:
        partitions = _partitions(producer, feed)
        while not feed.start.wait(_INTERVAL_SECONDS):
            if stop.is_set():
                return
        lines = iter(feed.lines) if feed.once else itertools.cycle(feed.lines)
        started = time.monotonic()
        while not stop.wait(_INTERVAL_SECONDS):
            due = int((time.monotonic() - started) * feed.per_second) - feed.sent
            # At most one second's worth, also after the machine was suspended.
            due = min(due, int(feed.per_second) + 1)
            _send(clients, producer, feed, list(itertools.islice(lines, due)), partitions)
            if feed.once and feed.sent >= len(feed.lines):
                feed.done = True
                return
    finally:
        producer.close()


def _partitions(producer: Any, feed: Feed) -> Sequence[int]:
    return feed.partitions or range(producer.partitionsFor(feed.topic).size())


def _send(
    clients: KafkaClients,
    producer: Any,
    feed: Feed,
    lines: Sequence[str],
    partitions: Sequence[int],
) -> None:
    record = clients.kafka.clients.producer.ProducerRecord
    # Without a key, Kafka's default partitioner stays with one partition for 16 KB.
    sent = [
        producer.send(record(feed.topic, partitions[number % len(partitions)], None, line))
        for number, line in enumerate(lines, feed.sent)
    ]
    # Each, because a line that is refused, such as one that is too long, fails alone.
    for each in sent:
        clients.result(each)
    feed.sent += len(lines)
