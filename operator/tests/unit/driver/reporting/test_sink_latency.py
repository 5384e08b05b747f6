"""The latency to the sink: of which records it is measured, and that the bound is one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.kafka.records import StampedRecord, TopicEnds
from penstock.driver.reporting.sink_latency import MAX_PARTITIONS, SinkLatency, SinkSample

COMMITTED_AT = 1_700_000_010.0


@dataclass
class Topic:
    """Its partitions: the timestamp and the header of each record, by offset. None is a gap."""

    records: dict[int, list[tuple[float, float | None] | None]]
    reads: list[tuple[int, int]] = field(default_factory=list)

    def first_from(self, topic: str, partition: int, offset: int) -> StampedRecord | None:
        self.reads.append((partition, offset))
        for number, record in enumerate(self.records[partition]):
            if number >= offset and record is not None:
                return StampedRecord(number, *record)
        return None

    def last_before(self, topic: str, partition: int, end: int) -> StampedRecord | None:
        self.reads.append((partition, end))
        for number in range(min(end, len(self.records[partition])) - 1, -1, -1):
            if (record := self.records[partition][number]) is not None:
                return StampedRecord(number, *record)
        return None

    def ends_at(self, topic: str, at: float, most: int) -> TopicEnds:
        ends = {}
        for partition, records in list(self.records.items())[:most]:
            later = [n for n, each in enumerate(records) if each is not None and each[0] > at]
            if end := min(later, default=len(records)):
                ends[partition] = end
        return TopicEnds(ends, is_whole=len(self.records) <= most)


def seconds(*before_commit: float) -> list[tuple[float, float | None] | None]:
    """Records without a header, so many seconds before the commit."""
    return [(COMMITTED_AT - each, None) for each in before_commit]


def sampled(
    source: Topic, sink: Topic, writes_at_once: bool = True, latency: SinkLatency | None = None
) -> SinkSample:
    """A sample after an epoch with all records of the source."""
    ends = {number: len(records) for number, records in source.records.items()}
    read = OffsetRange({"in": dict.fromkeys(ends, 0)}, {"in": ends}, COMMITTED_AT)
    latency = latency or SinkLatency("out", writes_at_once)
    return latency.sample(source, sink, read, random.Random(1))


def test_the_bound_ends_with_the_newest_record_that_the_sink_had_at_the_commit() -> None:
    source = Topic({0: seconds(9, 5), 1: seconds(8, 4)})
    sink = Topic({0: seconds(6, 3.5, -1), 1: seconds(7), 2: []})
    assert sampled(source, sink).bounds == [0.5]


def test_in_continuous_mode_it_begins_with_the_newest_record_of_the_epoch() -> None:
    """The others have waited for the commit much longer than for the sink."""
    source = Topic({number: seconds(9, number) for number in range(1, 5)})
    assert sampled(source, Topic({0: seconds(0.25)})).bounds == [0.75]


def test_in_micro_batch_mode_it_begins_with_random_records() -> None:
    source = Topic({0: seconds(*[2.0] * 50), 1: seconds(*[3.0] * 50)})
    sample = sampled(source, Topic({0: seconds(0.5)}), writes_at_once=False)
    assert sorted(sample.bounds) == [1.5, 2.5]


def test_a_record_that_the_query_has_dropped_has_no_bound_if_nothing_came_after_it() -> None:
    assert sampled(Topic({0: seconds(2)}), Topic({0: seconds(3)})).bounds == []


def test_what_is_not_known_of_the_sink_makes_the_bound_later_and_never_earlier() -> None:
    """Nothing at a partition's end, a topic with too many partitions, and one without records."""
    source = Topic({0: seconds(2)})
    wide = Topic({number: seconds(1) for number in range(MAX_PARTITIONS + 1)})
    for sink in (Topic({0: seconds(1), 1: [None, None]}), wide, Topic({0: []})):
        assert sampled(source, sink).bounds == [2.0]
    assert wide.reads == []


def test_the_markers_of_transactions_hide_no_record() -> None:
    sink = Topic({0: seconds(1), 1: [*seconds(0.5), None, None]})
    assert sampled(Topic({0: seconds(2)}), sink).bounds == [1.5]


def test_records_with_the_header_are_measured_exactly() -> None:
    """Among those since the last sample, up to the commit, at their own timestamps."""
    latency = SinkLatency("out", writes_at_once=True)
    stamped = [(COMMITTED_AT - 5 + n, COMMITTED_AT - 5.25 + n) for n in range(5)]
    source, sink = Topic({0: seconds(4)}), Topic({0: [*seconds(6)], 1: []})
    assert sampled(source, sink, latency=latency).exact == [], "the first sample begins at its end"
    sink.records[0] += stamped
    sink.records[1] += [(COMMITTED_AT - 1, COMMITTED_AT - 2)]
    sink.reads.clear()
    assert sorted(sampled(source, sink, latency=latency).exact) == [0.25, 1.0]
    assert all(offset >= 1 for number, offset in sink.reads if number == 0)
    sink.records[0] += seconds(0.5)
    assert sampled(source, sink, latency=latency).exact == [], "the new record has no header"


def test_a_clock_that_is_ahead_makes_no_negative_latency() -> None:
    latency, source, sink = SinkLatency("out", True), Topic({0: seconds(4)}), Topic({0: []})
    sampled(source, sink, latency=latency)
    sink.records[0] += [(COMMITTED_AT - 3, COMMITTED_AT - 2)]
    assert sampled(source, sink, latency=latency).exact == [0.0]
