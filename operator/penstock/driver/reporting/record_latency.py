"""How long records wait to be committed, measured on a few of them.

From a record's own Kafka timestamp to the commit of its epoch, of one record drawn at random in
each of a few partitions, at a slow beat. That is what a failure puts at stake: the record itself
has reached the sink earlier, up to an interval earlier in continuous mode. With producers' clocks
(`CreateTime`, Kafka's default) it is as true as these are; what would be negative counts as 0.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1 import KafkaSource
from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.kafka.admin import client_options, require_a_known_broker

# Partitions asked in one look: what is fetched stays small however wide the topic is.
_AT_MOST = 8
_POLL_MS = 1000
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OPTIONS = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    # The broker sends one batch at least, and no more than that is wanted.
    "max.poll.records": "1",
    "max.partition.fetch.bytes": "1",
    "fetch.min.bytes": "1",
}


def draw(offset_range: OffsetRange, rng: random.Random) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of the records to look at: each of a partition as likely."""
    parts = offset_range.parts()
    chosen = rng.sample(parts, min(_AT_MOST, len(parts)))
    return [(topic, number, rng.randrange(start, end)) for topic, number, start, end in chosen]


class LatencyProbe:
    """A consumer of no group in the driver's JVM. Not for use by two threads at once."""

    def __init__(self, gateway: Any, source: KafkaSource, secrets: Path) -> None:
        require_a_known_broker(source.bootstrap_servers)
        self._jvm = gateway.jvm
        options = self._jvm.java.util.HashMap()
        for name, value in {**client_options(source, secrets), **_OPTIONS}.items():
            options.put(name, value)
        self._client = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(options)

    def sample(self, offset_range: OffsetRange, rng: random.Random) -> list[float]:
        """Seconds from timestamp to commit, of a few records of the stretch."""
        times = [self._timestamp(*record) for record in draw(offset_range, rng)]
        return [max(0.0, offset_range.committed_at - time) for time in times if time is not None]

    def close(self) -> None:
        """Lets go of its connections."""
        self._client.close(self._jvm.java.time.Duration.ofMillis(0))

    def _timestamp(self, topic: str, partition: int, offset: int) -> float | None:
        """None where there is no record at the offset: compacted, expired, a transaction's mark."""
        environment = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        self._client.assign(self._jvm.java.util.List.of(environment))
        self._client.seek(environment, offset)
        found = self._client.poll(self._jvm.java.time.Duration.ofMillis(_POLL_MS)).iterator()
        if not found.hasNext():
            return None
        record = found.next()
        return float(record.timestamp()) / 1000 if record.offset() == offset else None
