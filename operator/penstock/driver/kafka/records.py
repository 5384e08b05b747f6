"""Single records of Kafka, off the query's path: KafkaRecords.java, in the driver's own JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1.kafka_connection import KafkaClient
from penstock.driver.jvm import java_class
from penstock.driver.kafka.admin import CALL_TIMEOUT_MS, client_options
from penstock.driver.record_position import Position

# A query that writes the source's timestamp into this header of its records, as milliseconds since
# 1970 in decimal, has its latency measured exactly (docs/metrics.md).
HEADER = "penstock-source-timestamp"
_CLASS = "dev.penstock.spark.driver.KafkaRecords"


@dataclass(frozen=True)
class StampedRecord:
    """Where a record is, and when it was made.

    With `CreateTime` (Kafka's default) the timestamp is as exact as its producer's clock.
    """

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


class KafkaRecords:
    """A consumer without a group. Not for use by two threads at once.

    It may block while it resolves names (calls_with_deadline.py). It raises Kafka's exceptions.
    """

    def __init__(
        self,
        gateway: Any,
        client: KafkaClient,
        secrets: Path,
        on_fetch: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`on_fetch` gets the seconds of each fetch that has found a record."""
        self._on_fetch = on_fetch
        self._java = java_class(gateway, _CLASS)(json.dumps(client_options(client, secrets)))

    def first_from(self, topic: str, partition: int, offset: int) -> StampedRecord | None:
        """The first record at an offset or after it; None if none arrives within a second.

        There may be none at the offset: compacted, expired, or a transaction's marker.
        """
        return self._stamped(self._java.firstFrom(topic, partition, offset, HEADER))

    def last_before(self, topic: str, partition: int, end: int) -> StampedRecord | None:
        """The last record before an offset; None if there is none within sixteen offsets.

        The markers of transactions take offsets too, one of each producer.
        """
        return self._stamped(self._java.lastBefore(topic, partition, end))

    def ends_at(self, topic: str, at: float, most: int) -> TopicEnds:
        """The ends of the topic's first partitions, up to `most`, at a time in seconds."""
        answer = json.loads(self._java.endsAt(topic, int(at * 1000), most))
        ends = {int(number): end for number, end in answer["ends"].items()}
        return TopicEnds(ends, answer["is_whole"])

    def at(self, position: Position) -> Any | None:
        """Kafka's ConsumerRecord; None if the log has none at the offset any more.

        Raises Kafka's TimeoutException if nothing arrives within ten seconds.
        """
        return self._java.at(*position, CALL_TIMEOUT_MS)

    def close(self) -> None:
        self._java.close()

    def _stamped(self, answer: str | None) -> StampedRecord | None:
        if answer is None:
            return None
        record = json.loads(answer)
        self._on_fetch(record["fetchSeconds"])
        stamp = _seconds(record.get("header"))
        return StampedRecord(record["offset"], record["timestampMs"] / 1000, stamp)


def copy(
    gateway: Any,
    client: KafkaClient,
    secrets: Path,
    record: Any,
    topic: str,
    headers: Mapping[str, str],
) -> None:
    """Copies Kafka's ConsumerRecord to a topic, with more headers, and a timestamp of now.

    Returns once all replicas in sync have it. Raises Kafka's own exceptions.
    """
    options = json.dumps(client_options(client, secrets))
    java = java_class(gateway, _CLASS)
    java.copy(options, record, topic, json.dumps(headers), CALL_TIMEOUT_MS)


def _seconds(milliseconds: str | None) -> float | None:
    """None if it is no number of milliseconds."""
    try:
        return int(milliseconds or "") / 1000
    except ValueError:
        return None
