"""The latency of single records to their commit, by their timestamps in Kafka."""

from __future__ import annotations

import random

from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.kafka.records import KafkaRecords

# Records in one sample: the amount of fetched data does not grow with the number of partitions.
MAX_RECORDS = 8


def sample_latency(
    reader: KafkaRecords, offset_range: OffsetRange, rng: random.Random
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
