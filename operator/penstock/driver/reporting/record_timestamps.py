"""Reads the Kafka timestamps of single records, off the query's path.

With `CreateTime` (Kafka's default) a timestamp is as exact as its producer's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1 import KafkaSource
from penstock.driver.kafka.admin import client_options

_POLL_MS = 1000
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OPTIONS = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "enable.auto.commit": "false",
    # From an offset that has expired, it goes on with the first record that is left.
    "auto.offset.reset": "earliest",
    # The broker sends at least one batch; nothing more is needed.
    "max.poll.records": "1",
    "max.partition.fetch.bytes": "1",
    "fetch.min.bytes": "1",
}


@dataclass(frozen=True)
class StampedRecord:
    """Where a record is, and when it was made."""

    offset: int
    timestamp: float
    """Seconds since 1970."""


class TimestampReader:
    """A consumer without a group in the driver's JVM. Not for use by two threads at once."""

    def __init__(self, gateway: Any, source: KafkaSource, secrets: Path) -> None:
        self._jvm = gateway.jvm
        options = self._jvm.java.util.HashMap()
        for name, value in {**client_options(source, secrets), **_OPTIONS}.items():
            options.put(name, value)
        self._client = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(options)

    def first_from(self, topic: str, partition: int, offset: int) -> StampedRecord | None:
        """The first record at an offset or after it; None if none arrives within a second.

        There may be none at the offset: compacted, expired, or a transaction's marker.
        """
        topic_partition = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        self._client.assign(self._jvm.java.util.List.of(topic_partition))
        self._client.seek(topic_partition, offset)
        found = self._client.poll(self._jvm.java.time.Duration.ofMillis(_POLL_MS)).iterator()
        if not found.hasNext():
            return None
        record = found.next()
        return StampedRecord(int(record.offset()), float(record.timestamp()) / 1000)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close(self._jvm.java.time.Duration.ofMillis(0))
