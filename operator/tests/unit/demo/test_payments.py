"""What the demo counts, and the figures that it prints."""

from __future__ import annotations

from collections import Counter

import pytest

from demo.payments import count, to_flag

SENT = 25
ALL = {3: 1, 13: 1, 23: 1}


@pytest.mark.parametrize(
    ("arrivals", "lost", "wrong", "duplicates", "is_right"),
    [
        (ALL, 0, 0, 0, True),
        ({**ALL, 13: 3}, 0, 0, 2, True),
        ({3: 1, 23: 1}, 1, 0, 0, False),
        ({**ALL, 4: 1}, 0, 1, 0, False),
        ({3: 2, 5: 1}, 2, 1, 1, False),
        ({}, 3, 0, 0, False),
    ],
    ids=["all", "duplicates", "lost", "wrong", "each", "none"],
)
def test_lost_wrong_and_duplicate_flags_are_counted_apart(
    arrivals: dict[int, int], lost: int, wrong: int, duplicates: int, is_right: bool
) -> None:
    """Only lost and wrong ones are an error."""
    counted = count(SENT, Counter(arrivals), 1)
    assert (counted.sent, counted.to_flag) == (SENT, 3)
    assert (counted.lost, counted.wrong, counted.duplicates) == (lost, wrong, duplicates)
    assert counted.is_right is is_right
    assert f" {lost} lost, {wrong} wrong, {duplicates} duplicates " in str(counted)


def test_payments_after_the_last_one_sent_are_not_expected() -> None:
    assert to_flag(13) == [3]
    assert to_flag(14) == [3, 13]
