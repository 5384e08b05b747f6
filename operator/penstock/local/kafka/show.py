"""`--show`: prints the records that arrive in a topic."""

from __future__ import annotations

import threading
import time
from typing import Any

from penstock.local.kafka.clients import KafkaClients

_POLL_MILLISECONDS = 200
# A broker that has ended sends nothing more.
_SILENCE_SECONDS = 3.0


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
        key = record.key()
        print(*([] if key is None else [key]), record.value(), sep="\t", flush=True)  # noqa: T201
        count += 1
    return count


def _is_behind(consumer: Any, ends: Any) -> bool:
    return any(consumer.position(partition) < ends.get(partition) for partition in ends.keySet())
