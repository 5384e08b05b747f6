"""Reads the Kafka timestamps of single records, off the query's path: their latency to the commit.

With `CreateTime` (Kafka's default) a timestamp is as exact as its producer's clock.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1.kafka_connection import KafkaClient
from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.jvm import java_class
from penstock.driver.kafka.admin import client_options

# A query that writes the source's timestamp into this header of its records, as milliseconds since
# 1970 in decimal, has its latency measured exactly (docs/metrics.md).
HEADER = "penstock-source-timestamp"
# Records in one sample: the amount of fetched data does not grow with the number of partitions.
MAX_RECORDS = 8
_POLL_MS = 1000
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OPTIONS = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "enable.auto.commit": "false",
    # From an offset that has expired, it continues with the first record that is left.
    "auto.offset.reset": "earliest",
    # The broker sends at least one batch; nothing more is needed.
    "max.poll.records": "1",
    "max.partition.fetch.bytes": "1",
    "fetch.min.bytes": "1",
    # Those of a sink are for producers.
    "interceptor.classes": "",
}


@dataclass(frozen=True)
class StampedRecord:
    """Where a record is, and when it was made."""

    offset: int
    timestamp: float
    """Seconds since 1970."""
    source_timestamp: float | None = None
    """The time in its header, in seconds since 1970; None without one."""


@dataclass(frozen=True)
class TopicEnds:
    """Where the partitions of a topic ended at a time."""

    ends: Mapping[int, int]
    """By partition the offset after its last record. Empty partitions are left out."""
    is_whole: bool
    """Whether these are all of its partitions."""


class TimestampReader:
    """A consumer without a group in the driver's JVM. Not for use by two threads at once."""

    def __init__(
        self,
        gateway: Any,
        client: KafkaClient,
        secrets: Path,
        on_fetch: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`on_fetch` gets the seconds of each fetch that has found a record."""
        self._gateway = gateway
        self._on_fetch = on_fetch
        options = self._class("java.util.HashMap")()
        for name, value in {**client_options(client, secrets), **_OPTIONS}.items():
            options.put(name, value)
        self._client = self._class("org.apache.kafka.clients.consumer.KafkaConsumer")(options)

    def first_from(self, topic: str, partition: int, offset: int) -> StampedRecord | None:
        """The first record at an offset or after it; None if none arrives within a second.

        There may be none at the offset: compacted, expired, or a transaction's marker.
        """
        self._seek(topic, partition, offset)
        return self._poll()

    def last_before(self, topic: str, partition: int, end: int) -> StampedRecord | None:
        """The last record before an offset; None if there is none within sixteen offsets.

        The markers of transactions take offsets too, one of each producer.
        """
        for back in (1, 2, 4, 8, 16):
            place = self._seek(topic, partition, max(0, end - back))
            last = None
            # A poll ends early where it has passed a marker only.
            while int(self._client.position(place)) < end:
                before, record = int(self._client.position(place)), self._poll()
                if record is None and int(self._client.position(place)) == before:
                    return None
                last = record if record is not None and record.offset < end else last
            if last is not None or back >= end:
                return last
        return None

    def _seek(self, topic: str, partition: int, offset: int) -> Any:
        place = self._topic_partition(topic, partition)
        self._client.assign(self._class("java.util.List").of(place))
        self._client.seek(place, offset)
        return place

    def _poll(self) -> StampedRecord | None:
        """The next record; None if none arrives within a second."""
        began = time.monotonic()
        found = self._client.poll(self._class("java.time.Duration").ofMillis(_POLL_MS)).iterator()
        if not found.hasNext():
            return None
        self._on_fetch(time.monotonic() - began)
        record = found.next()
        header = record.headers().lastHeader(HEADER)
        return StampedRecord(
            int(record.offset()),
            int(record.timestamp()) / 1000,
            None if header is None else _milliseconds(header.value()),
        )

    def ends_at(self, topic: str, at: float, most: int) -> TopicEnds:
        """The ends of the topic's first partitions at a time, up to `most`.

        The time is in seconds since 1970.
        """
        count = int(self._client.partitionsFor(topic).size())
        partitions = self._class("java.util.ArrayList")()
        times = self._class("java.util.HashMap")()
        for number in range(min(count, most)):
            partition = self._topic_partition(topic, number)
            partitions.add(partition)
            times.put(partition, int(at * 1000) + 1)
        # In this order: a record that arrives in between is after the time.
        ends = self._client.endOffsets(partitions)
        first = self._client.beginningOffsets(partitions)
        after = self._client.offsetsForTimes(times)
        found = {}
        for number, partition in enumerate(partitions):
            later = after.get(partition)
            end = int(ends.get(partition) if later is None else later.offset())
            if end > int(first.get(partition)):
                found[number] = end
        return TopicEnds(found, is_whole=count <= most)

    def _topic_partition(self, topic: str, partition: int) -> Any:
        return self._class("org.apache.kafka.common.TopicPartition")(topic, partition)

    def _class(self, name: str) -> Any:
        return java_class(self._gateway, name)

    def close(self) -> None:
        self._client.close(self._class("java.time.Duration").ofMillis(0))


def _milliseconds(value: bytes | None) -> float | None:
    """Seconds; None if it is no number of milliseconds."""
    try:
        return int(value or b"") / 1000
    except ValueError:
        return None


def sample_latency(
    reader: TimestampReader, offset_range: OffsetRange, rng: random.Random
) -> list[float]:
    """Seconds from timestamp to commit, for a few random records of the offset range.

    A failure within this time replays the record; the record itself reached the sink earlier, up to
    an interval earlier in continuous mode. A negative latency, from a producer whose clock is
    ahead, counts as 0.
    """
    chosen = choose_records(offset_range, rng)
    found = [(offset, reader.first_from(topic, part, offset)) for topic, part, offset in chosen]
    return [
        max(0.0, offset_range.committed_at - record.timestamp)
        for offset, record in found
        if record is not None and record.offset == offset
    ]


def choose_records(offset_range: OffsetRange, rng: random.Random) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of a random record in each of a few partitions."""
    parts = offset_range.parts()
    chosen = rng.sample(parts, min(MAX_RECORDS, len(parts)))
    return [(topic, number, rng.randrange(start, end)) for topic, number, start, end in chosen]
