"""Measures how long it takes from a record of the source to what is made of it in a Kafka sink.

Nothing in a record of the sink says which record of the source it was made of, so there are two
measurements, of a few records each:

- exact, where the query writes the source's timestamp into a header of each record
  (HEADER): from that time to the timestamp of the sink's record;
- an upper bound, for every query: what is made of a record is in the sink when its epoch is
  committed. So from the record's timestamp to that of the newest record which the sink had at the
  commit, it was written. In continuous and real-time mode, which write each record at once, the
  bound is taken for the newest record of an epoch, because others wait for the commit much longer
  than for the sink. In micro-batch mode it is taken for random records of the batch.

A sink's timestamp is the broker's with LogAppendTime; with CreateTime it is the time at which
Spark's producer got the record to send.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.kafka.records import StampedRecord, TopicEnds
from penstock.driver.reporting.commit_latency import MAX_RECORDS, choose_records

# What is read does not grow with the number of the sink's partitions. A wider topic's first ones
# are sampled, and its bound ends at the commit.
MAX_PARTITIONS = 32


class Records(Protocol):
    """What is read of Kafka: KafkaRecords."""

    def first_from(self, topic: str, partition: int, offset: int) -> StampedRecord | None:
        """The first record at an offset or after it."""

    def last_before(self, topic: str, partition: int, end: int) -> StampedRecord | None:
        """The last record before an offset, if it is not far."""

    def ends_at(self, topic: str, at: float, most: int) -> TopicEnds:
        """The ends of the topic's first partitions at a time, up to `most`."""


@dataclass(frozen=True)
class SinkSample:
    """Seconds from records of the source to the sink."""

    exact: list[float]
    bounds: list[float]


class SinkLatency:
    """Samples one sink topic. Remembers where it was at the last sample."""

    def __init__(self, topic: str, writes_at_once: bool) -> None:
        self._topic = topic
        self._writes_at_once = writes_at_once
        self._ends: Mapping[int, int] | None = None

    def sample(
        self, source: Records, sink: Records, read: OffsetRange, rng: random.Random
    ) -> SinkSample:
        """The records of one epoch or batch, and those of the sink since the last sample."""
        topic = sink.ends_at(self._topic, read.committed_at, MAX_PARTITIONS)
        before, self._ends = self._ends, topic.ends
        return SinkSample(
            exact=[] if before is None else self._exact(sink, before, topic.ends, rng),
            bounds=self._bounds(source, sink, topic, read, rng),
        )

    def _exact(
        self,
        sink: Records,
        before: Mapping[int, int],
        ends: Mapping[int, int],
        rng: random.Random,
    ) -> list[float]:
        # A partition that was empty at the last sample has no entry.
        starts = {number: before.get(number, 0) for number in ends}
        written = OffsetRange({self._topic: starts}, {self._topic: ends}, committed_at=0.0)
        found = (
            sink.first_from(topic, number, offset)
            for topic, number, offset in choose_records(written, rng)
        )
        return [
            max(0.0, record.timestamp - record.source_timestamp)
            for record in found
            if record is not None and record.source_timestamp is not None
        ]

    def _bounds(
        self,
        source: Records,
        sink: Records,
        topic: TopicEnds,
        read: OffsetRange,
        rng: random.Random,
    ) -> list[float]:
        timestamps = self._of_records(source, read, rng)
        if not timestamps:
            return []
        written_by = self._newest(sink, topic, read.committed_at)
        if self._writes_at_once:
            timestamps = [max(timestamps)]
        # Negative if the query has dropped the record and nothing came after it.
        return [written_by - timestamp for timestamp in timestamps if written_by >= timestamp]

    def _of_records(self, source: Records, read: OffsetRange, rng: random.Random) -> list[float]:
        if self._writes_at_once:
            parts = read.parts()
            chosen = [
                (topic, number, end - 1)
                for topic, number, _, end in rng.sample(parts, min(MAX_RECORDS, len(parts)))
            ]
        else:
            chosen = choose_records(read, rng)
        found = [(offset, source.first_from(topic, n, offset)) for topic, n, offset in chosen]
        return [it.timestamp for offset, it in found if it is not None and it.offset == offset]

    def _newest(self, sink: Records, topic: TopicEnds, committed_at: float) -> float:
        """The timestamp of the newest record that the sink had at the commit."""
        if not topic.ends or not topic.is_whole:
            return committed_at
        last = [sink.last_before(self._topic, number, end) for number, end in topic.ends.items()]
        times = [record.timestamp for record in last if record is not None]
        # Many markers of transactions, or a record that has expired, hide what was before them.
        return max(times) if len(times) == len(last) else committed_at
