"""When a generation that has not committed begins elsewhere than at its first start."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api.v1alpha1.checkpoint import StartFrom
from penstock.driver.checkpoint.start_from import Beginning, moves, stored_form
from penstock.driver.kafka.offsets import Offsets

STORED, NAMED = 70, 90
"""Offsets of one partition."""


@pytest.mark.parametrize(
    ("start", "not_planned", "planned"),
    [
        ({"generation": 0}, True, True),
        ({"offsets": "earliest"}, True, False),
        ({"consumerGroup": "g"}, True, False),
        ({"offsets": "latest"}, False, False),
        ({"timestamp": "2026-11-26T08:00:00Z"}, False, False),
        ({"offsetsByPartition": {"in": {"0": 5}}}, False, False),
    ],
    ids=str,
)
def test_what_counts_again(start: dict[str, Any], not_planned: bool, planned: bool) -> None:
    asked = StartFrom.model_validate(start)
    assert (moves(asked, planned=False), moves(asked, planned=True)) == (not_planned, planned)


@pytest.mark.parametrize(
    ("stored_id", "named_id", "moved", "stays"),
    [
        # Of the topic that exists, "a".
        ("a", "a", NAMED, STORED),
        # startFrom names no ids: a time, a group, an offset.
        ("a", None, NAMED, STORED),
        # The earlier generation knows the topic before it was created again.
        ("a", "old", STORED, STORED),
        # This one does.
        ("old", "a", NAMED, NAMED),
        ("old", None, NAMED, NAMED),
        ("old", "old", NAMED, NAMED),
    ],
)
def test_offsets_of_a_topic_that_was_created_again(
    stored_id: str, named_id: str | None, moved: int, stays: int
) -> None:
    stored = Beginning({"in": {0: STORED}}, {"in": stored_id})
    named = Beginning({"in": {0: NAMED}}, {} if named_id is None else {"in": named_id})
    for is_moving, expected in ((True, moved), (False, stays)):
        found = stored.updated(named, {"in": "a"}, moves=is_moving)
        assert found.offsets == {"in": {0: expected}}
        if stored_id == "a":
            assert found.topic_ids == {"in": "a"}


@pytest.mark.parametrize("is_moving", [True, False])
def test_it_never_begins_before_what_is_stored_or_leaves_out_what_is_named(is_moving: bool) -> None:
    stored = Beginning({"in": {0: STORED, 1: STORED}, "gone": {0: 1}}, {})
    named: Offsets = {"in": {0: NAMED, 1: 5, 2: 3}, "added": {0: 4}}
    found = stored.updated(Beginning(named, {}), {}, moves=is_moving)
    of_new_partition = {2: 3} if is_moving else {}
    assert found.offsets == {
        "in": {0: NAMED if is_moving else STORED, 1: STORED, **of_new_partition},
        "added": {0: 4},
    }


def test_what_is_stored_already_is_not_stored_again() -> None:
    stored = Beginning({"in": {0: 7}}, {"in": "a", "other": "b"})
    assert stored.includes(Beginning({"in": {0: 7}}, {"in": "a"}))
    assert not stored.includes(Beginning({"in": {0: 8}}, {"in": "a"}))
    assert not stored.includes(Beginning({"in": {0: 7}}, {"in": "c"}))


def test_a_time_is_stored_in_one_form() -> None:
    """So another way to write the same time is no edit."""
    times = ("2026-11-26T08:00:00Z", "2026-11-26T09:00:00.000+01:00")
    one, other = (stored_form(StartFrom.model_validate({"timestamp": it})) for it in times)
    assert one == other
    assert stored_form(StartFrom(offsets="latest")) == {"offsets": "latest"}
