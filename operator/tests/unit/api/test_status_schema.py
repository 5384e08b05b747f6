"""The status in the CRD: its columns, its open strings and its bounded lists."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api.v1alpha1.status import MAX_COMMITTED_OFFSETS, StreamState
from testkit.streams.crd_schema import schema


def field(*path: str) -> dict[str, Any]:
    node: dict[str, Any] = schema()["properties"]["status"]
    for name in path:
        node = node["items"] if name == "[]" else node["properties"][name]
    return node


@pytest.mark.parametrize("path", [("state",), ("mode",), ("conditions", "[]", "type")])
def test_states_modes_and_condition_types_are_open_strings(path: tuple[str, ...]) -> None:
    """A later version may add values without a change of the schema."""
    node = field(*path)
    assert node["type"] == "string"
    assert not {"enum", "pattern"} & set(node)


def test_the_description_lists_every_state() -> None:
    assert all(state in field("state")["description"] for state in StreamState)


def test_committed_offsets_are_a_bounded_map_list() -> None:
    offsets = field("committedOffsets")
    assert offsets["maxItems"] == MAX_COMMITTED_OFFSETS == 64
    assert offsets["x-kubernetes-list-type"] == "map"
    assert offsets["x-kubernetes-list-map-keys"] == ["topic", "partition"]
    assert set(offsets["items"]["required"]) == {"topic", "partition", "offset"}
