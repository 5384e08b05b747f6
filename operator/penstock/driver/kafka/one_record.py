"""Reads one record of a topic, raw, with a consumer of its own in the driver's JVM."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1 import KafkaSource
from penstock.driver.failures import BROKER_UNREACHABLE, DriverError, Failure
from penstock.driver.jvm import java_class
from penstock.driver.kafka.admin import client_options
from penstock.driver.record_position import Position

_ANSWER_SECONDS = 10.0
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OPTIONS = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    "max.poll.records": "1",
}


def read(gateway: Any, source: KafkaSource, secrets: Path, position: Position) -> Any | None:
    """Kafka's ConsumerRecord; None if there is none at the offset any more.

    May block while it resolves names. Raises Kafka's own exceptions, also for an offset that is
    outside of the log, and BrokerUnreachable if no record arrives within ten seconds.
    """

    def java(name: str) -> Any:
        return java_class(gateway, name)

    options = java("java.util.HashMap")()
    for name, value in {**client_options(source, secrets), **_OPTIONS}.items():
        options.put(name, value)
    consumer = java("org.apache.kafka.clients.consumer.KafkaConsumer")(options)
    duration = java("java.time.Duration")
    try:
        partition = java("org.apache.kafka.common.TopicPartition")(
            position.topic, position.partition
        )
        consumer.assign(java("java.util.List").of(partition))
        consumer.seek(partition, position.offset)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            records = consumer.poll(duration.ofMillis(500)).iterator()
            if records.hasNext():
                record = records.next()
                return record if int(record.offset()) == position.offset else None
    finally:
        consumer.close(duration.ofMillis(0))
    raise DriverError(
        Failure(
            BROKER_UNREACHABLE,
            f"Nothing could be read at {position} within {_ANSWER_SECONDS:.0f} s.",
        )
    )
