"""When an object matches its manifest: no needless write, and no missed change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.quantities import amount
from penstock.cluster.objects import Object
from penstock.controller.children.diff import contained, up_to_date, with_applied_hash

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(VALUES)
def test_everything_contains_itself(value: Any) -> None:
    assert contained(value, value)


@given(st.dictionaries(st.text(max_size=4), VALUES), st.dictionaries(st.text(max_size=4), VALUES))
def test_values_that_the_server_adds_do_not_matter(
    desired: dict[str, Any], more: dict[str, Any]
) -> None:
    assert contained(desired, {**more, **desired})


@pytest.mark.parametrize(
    ("desired", "found"),
    [
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 2}),
        ({"a": {"b": 1}}, {"a": None}),
        ([1, 2], [1]),
        ([1], [1, 2]),
        ([{"name": "x", "value": 1}], [{"name": "x", "value": 2}]),
        ([{"name": "x"}], [{"name": "y"}]),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
    ],
)
def test_differences_are_found(desired: Any, found: Any) -> None:
    assert not contained(desired, found)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1", "1000m"),
        ("1000M", "1G"),
        ("1.5Gi", "1536Mi"),
        ("1E", "1000P"),
    ],
)
def test_quantities_are_compared_by_amount(ours: str, theirs: str) -> None:
    """The server rewrites quantities in its own spelling."""
    assert amount(ours) == amount(theirs)
    assert contained({"limits": {"memory": ours}}, {"limits": {"memory": theirs}})
    assert not contained({"env": ours}, {"env": theirs})


def test_text_that_is_no_quantity_equals_only_itself() -> None:
    """A pod template can hold anything."""
    assert contained({"limits": {"x": "much"}}, {"limits": {"x": "much"}})
    assert not contained({"limits": {"x": "much"}}, {"limits": {"x": "1000P"}})


def test_containers_and_variables_of_others_do_not_matter() -> None:
    assert contained([{"name": "a"}], [{"name": "b"}, {"name": "a", "more": 1}])


def test_a_removed_field_is_a_difference() -> None:
    """The object still contains the manifest; only the hash differs."""
    meta: dict[str, Any] = {"metadata": {"name": "x"}}
    before, after = (
        with_applied_hash({**meta, "spec": {"a": 1, "b": 2}}),
        with_applied_hash({**meta, "spec": {"a": 1}}),
    )
    assert contained(after["spec"], before["spec"])
    assert not up_to_date(after, Object(before))
    assert up_to_date(after, Object(after))
    assert not up_to_date(after, None)
