"""The lag in seconds: of which records the timestamps are read."""

from __future__ import annotations

from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.records import StampedRecord
from penstock.driver.reporting.record_age import MAX_READS, RecordAges

NOW = 1_700_000_000.0


class Broker:
    """Partitions whose record at each offset is as many seconds old as `age` says."""

    def __init__(self, age: float = 10.0) -> None:
        self.age = age
        self.reads: list[tuple[str, int, int]] = []
        self.ages: dict[int, float] = {}
        self.empty: set[int] = set()

    def read(self, topic: str, partition: int, offset: int) -> StampedRecord | None:
        self.reads.append((topic, partition, offset))
        if partition in self.empty:
            return None
        return StampedRecord(offset, NOW - self.ages.get(partition, self.age))


def one(offset: int) -> Offsets:
    return {"in": {0: offset}}


def test_the_oldest_record_of_all_partitions_counts() -> None:
    broker = Broker()
    broker.ages = {0: 3.0, 1: 40.0}
    committed, newest = {"in": {0: 5, 1: 5, 2: 9}}, {"in": {0: 6, 1: 6, 2: 9}}
    assert RecordAges().measure(committed, newest, broker.read, NOW) == 40.0
    assert sorted(broker.reads) == [("in", 0, 5), ("in", 1, 5)]


def test_nothing_is_read_if_everything_is_committed() -> None:
    broker = Broker()
    assert RecordAges().measure(one(7), one(7), broker.read, NOW) == 0.0
    assert broker.reads == []


def test_a_partition_that_does_not_move_is_read_once_and_ages() -> None:
    """It is the one to find, and would be read every ten seconds."""
    broker, ages = Broker(), RecordAges()
    assert ages.measure(one(5), one(7), broker.read, NOW) == 10.0
    assert ages.measure(one(5), one(900), broker.read, NOW + 60) == 70.0
    assert broker.reads == [("in", 0, 5)]
    ages.measure(one(6), one(900), broker.read, NOW + 60)
    assert broker.reads == [("in", 0, 5), ("in", 0, 6)]


def test_an_offset_without_a_record_is_no_lag_until_another_arrives() -> None:
    """Such as the marker of a transaction; waiting for it takes a second.

    It is read twice: the first time the consumer may just have connected too late.
    """
    broker, ages = Broker(), RecordAges()
    broker.empty = {0}
    for _ in range(4):
        assert ages.measure(one(5), one(6), broker.read, NOW) == 0.0
    assert len(broker.reads) == 2
    broker.empty = set()
    assert ages.measure(one(5), one(7), broker.read, NOW) == 10.0


def test_a_clock_that_is_ahead_makes_no_negative_lag() -> None:
    assert RecordAges().measure(one(5), one(6), Broker(age=-3.0).read, NOW) == 0.0


def test_of_many_partitions_those_with_the_largest_lag_are_read() -> None:
    """So the cost does not grow with their number."""
    broker, many = Broker(), 3 * MAX_READS
    committed = {"in": dict.fromkeys(range(many), 0)}
    newest = {"in": {number: number + 1 for number in range(many)}}
    ages = RecordAges()
    ages.measure(committed, newest, broker.read, NOW)
    read = {partition for _, partition, _ in broker.reads}
    assert read == set(range(many - MAX_READS, many))
    ages.measure(committed, newest, broker.read, NOW)
    assert len(broker.reads) == 2 * MAX_READS, "the next ones, because these are known"


def test_a_quiet_stuck_partition_is_found_among_many_busy_ones() -> None:
    """Its lag is the smallest, and it is the one that does not commit."""
    broker, ages, busy = Broker(), RecordAges(), 3 * MAX_READS
    broker.ages = {busy: 500.0}
    for turn in range(2):
        committed = {"in": {**dict.fromkeys(range(busy), 100 * turn), busy: 5}}
        newest = {"in": {**dict.fromkeys(range(busy), 100 * turn + 90), busy: 6}}
        age = ages.measure(committed, newest, broker.read, NOW)
    assert age == 500.0
    assert ("in", busy, 5) in ages.positions_behind


def test_partitions_with_a_record_after_the_committed_offset_are_behind() -> None:
    broker, ages = Broker(), RecordAges()
    broker.empty = {2}
    committed, newest = {"in": {0: 5, 1: 6, 2: 7}}, {"in": {0: 5, 1: 9, 2: 8}}
    ages.measure(committed, newest, broker.read, NOW)
    assert ages.positions_behind == {("in", 1, 6)}
    ages.measure({"in": {0: 5, 1: 9, 2: 7}}, newest, broker.read, NOW)
    assert ages.positions_behind == frozenset()
