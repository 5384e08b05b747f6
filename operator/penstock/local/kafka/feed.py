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
    sent: int = 0
    done: bool = False


def send_lines(clients: KafkaClients, feed: Feed, stop: threading.Event) -> None:
    """Sends the lines at the rate, spread over the partitions, until they end or `stop` is set."""
    producer = clients.producer()
    try:
        partitions = producer.partitionsFor(feed.topic).size()
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


def _send(
    clients: KafkaClients, producer: Any, feed: Feed, lines: Sequence[str], partitions: int
) -> None:
    record, last = clients.kafka.clients.producer.ProducerRecord, None
    for number, line in enumerate(lines, feed.sent):
        # Without a key, Kafka's default partitioner stays with one partition for 16 KB.
        last = producer.send(record(feed.topic, number % partitions, None, line))
    if last is not None:
        clients.result(last)
        feed.sent += len(lines)
