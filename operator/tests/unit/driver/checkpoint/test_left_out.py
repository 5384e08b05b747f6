"""The list of records that the query leaves out."""

import pytest

from penstock.driver.checkpoint.left_out import DeadLetter, LeftOut
from penstock.driver.record_position import Position


def letter(offset: int, at: float) -> DeadLetter:
    return DeadLetter(Position("in", 0, offset), "a", at)


def test_what_is_committed_is_forgotten_after_a_minute() -> None:
    """Until then it counts for the limit; what is not committed is read again."""
    kept = LeftOut((letter(5, 100.0), letter(6, 150.0), letter(9, 100.0)))
    more = kept.adding(letter(10, 170.0), {"in": {0: 7}})
    assert [each.position.offset for each in more.letters] == [6, 9, 10]
    assert more.count_for_limit(None, {}, None, now=171.0) == 2
    # A second copy, after a crash, is one entry.
    assert more.adding(letter(10, 171.0), None).letters[-1].at == 171.0
    assert len(more.adding(letter(10, 171.0), None).letters) == 3


def test_those_right_before_a_record_count_however_long_they_took() -> None:
    """Each costs two restarts: a broken transform must not drain a topic, however slowly."""
    left, ids = LeftOut(), {"in": "a"}
    for offset in (2, 5, 7, 8):  # a transaction's marker is at 6
        left = left.adding(letter(offset, 600.0 * offset), {"in": {0: offset, 1: offset}})
    now, others = 600.0 * 10, {"in": {0: 9, 1: 50}}
    assert left.count_for_limit(Position("in", 0, 9), ids, others, now) == 3
    assert left.count_for_limit(Position("in", 0, 11), ids, others, now) == 0
    assert left.count_for_limit(Position("in", 1, 9), ids, others, now) == 0
    assert left.count_for_limit(Position("in", 0, 9), {"in": "created again"}, others, now) == 0
    assert [letter.position.offset for letter in left.letters] == [5, 7, 8]


@pytest.mark.proves(37)
def test_those_before_a_record_count_in_all_partitions_if_no_other_is_committed() -> None:
    """Else a transform that fails over each record drains so many from each of 100 partitions."""
    left, committed = LeftOut(), dict.fromkeys(range(100), 7)
    for partition in range(50):
        at = Position("in", partition, 7)
        assert (
            left.count_for_limit(at, {"in": "a"}, {"in": committed}, 600.0 * partition) == partition
        )
        left = left.adding(DeadLetter(at, "a", 600.0 * partition), {"in": dict(committed)})
        committed[partition] = 8
    late, fails = 600.0 * 50, Position("in", 50, 7)
    assert left.count_for_limit(fails, {"in": "a"}, {"in": committed}, late) == 50
    # As long as the list is reloaded, before each start; what a process does not know counts anew.
    assert LeftOut(left.letters).count_for_limit(fails, {"in": "a"}, {"in": committed}, late) == 0
    # A copy that is made again is one.
    again = left.adding(DeadLetter(Position("in", 49, 7), "a", late), {"in": committed})
    assert again.count_for_limit(fails, {"in": "a"}, {"in": committed}, late) == 50
    # One partition passes another record, or its topic was created again: the transform works.
    for passed in (8, 6):
        others = {"in": {**committed, 99: passed}}
        assert left.count_for_limit(fails, {"in": "a"}, others, late) == 0
        assert left.adding(DeadLetter(fails, "a", late), others).row == 1


def test_a_partition_without_a_commit_counts_from_its_first_one() -> None:
    left = LeftOut().adding(letter(7, 100.0), None).adding(letter(8, 900.0), {"in": {0: 8, 1: 3}})
    assert left.count_for_limit(Position("in", 0, 20), {}, {"in": {0: 9, 1: 3}}, 5000.0) == 2
    assert left.count_for_limit(Position("in", 0, 20), {}, {"in": {0: 9, 1: 4}}, 5000.0) == 0
