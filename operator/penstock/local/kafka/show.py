"""`--show`: prints the records that arrive in a topic."""

from __future__ import annotations

import threading

from penstock.local.kafka.clients import KafkaClients

_POLL_MILLISECONDS = 200


def print_records(
    clients: KafkaClients, topic: str, stop: threading.Event, ready: threading.Event
) -> None:
    """Prints new records on stdout until `stop`: the key, if there is one, a tab and the value.

    Sets `ready` once its start position is fixed, so that no later record is missed.
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
            records = consumer.poll(timeout).iterator()
            while records.hasNext():
                record = records.next()
                key = record.key()
                print(*([] if key is None else [key]), record.value(), sep="\t", flush=True)  # noqa: T201
    finally:
        ready.set()
        consumer.close()
