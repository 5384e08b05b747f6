"""Measures how long records wait to be committed, on a few random records.

The latency is the time from a record's Kafka timestamp to the commit of its epoch. A failure within
this time replays the record; the record itself reached the sink earlier, up to an interval earlier
in continuous mode. With `CreateTime` (Kafka's default) the accuracy depends on the producers'
clocks; a negative latency counts as 0.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1 import KafkaSource
from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.kafka.admin import client_options

# Records in one sample: the amount of fetched data does not grow with the number of partitions.
_MAX_RECORDS = 8
_POLL_MS = 1000
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OPTIONS = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    # The broker sends at least one batch; nothing more is needed.
    "max.poll.records": "1",
    "max.partition.fetch.bytes": "1",
    "fetch.min.bytes": "1",
}


def choose_records(offset_range: OffsetRange, rng: random.Random) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of a random record in each of a few partitions."""
    parts = offset_range.parts()
    chosen = rng.sample(parts, min(_MAX_RECORDS, len(parts)))
    return [(topic, number, rng.randrange(start, end)) for topic, number, start, end in chosen]


class LatencyProbe:
    """A consumer without a group in the driver's JVM. Not for use by two threads at once."""

    def __init__(self, gateway: Any, source: KafkaSource, secrets: Path) -> None:
        self._jvm = gateway.jvm
        options = self._jvm.java.util.HashMap()
        for name, value in {**client_options(source, secrets), **_OPTIONS}.items():
            options.put(name, value)
        self._client = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(options)

    def sample(self, offset_range: OffsetRange, rng: random.Random) -> list[float]:
        """Seconds from timestamp to commit, for a few records of the offset range."""
        times = [self._timestamp(*record) for record in choose_records(offset_range, rng)]
        return [max(0.0, offset_range.committed_at - time) for time in times if time is not None]

    def close(self) -> None:
        """Closes the connections."""
        self._client.close(self._jvm.java.time.Duration.ofMillis(0))

    def _timestamp(self, topic: str, partition: int, offset: int) -> float | None:
        """None if there is no record at the offset: compacted, expired, or a transaction marker."""
        topic_partition = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        self._client.assign(self._jvm.java.util.List.of(topic_partition))
        self._client.seek(topic_partition, offset)
        found = self._client.poll(self._jvm.java.time.Duration.ofMillis(_POLL_MS)).iterator()
        if not found.hasNext():
            return None
        record = found.next()
        return float(record.timestamp()) / 1000 if record.offset() == offset else None
