"""An edit of any field of the spec does to the driver's pod what the field's class says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.api.v1alpha1 import changes
from penstock.api.v1alpha1.changes import Change, change_of
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.kinds import Manifest
from penstock.controller.children.revision import resolve
from penstock.controller.children.stateful_set import driver_stateful_set
from testkit.controller import samples
from testkit.streams.crd_schema import nodes, schema
from testkit.streams.every_field import WIDE

SPEC = schema()["properties"]["spec"]
# What a valid edit of each of these fields sets; others may get what is invalid.
EDITS: dict[str, Any] = {
    "suspend": False,
    "checkpoint.volume.size": "9Gi",
    "checkpoint.volume.reclaimPolicy": "Retain",
    "checkpoint.volume.adopt": False,
    "restart.maxAttempts": 9,
    "restart.stableAfter": "9m",
    "observability.logLevel": "DEBUG",
}
GONE = object()


def edits(value: Any, node: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Each field that the value sets, with the value without it, and with another one in it."""
    if isinstance(value, list) and "properties" in node.get("items", {}):
        for at, edited in edits(value[0], node["items"], f"{path}[]"):
            yield at, [edited, *value[1:]]
    elif not is_field(node):
        for name, inner in value.items():
            named = "properties" in node
            below = f"{path}.{name}".removeprefix(".") if named else f"{path}{{}}"
            of = node["properties"][name] if named else node["additionalProperties"]
            for at, edited in edits(inner, of, below):
                others = {key: value[key] for key in value if key != name}
                yield at, others if edited is GONE else {**others, name: edited}
    else:
        yield path, GONE
        yield path, EDITS.get(path, "another")


def is_field(node: dict[str, Any]) -> bool:
    """Whether a node has no named fields below it."""
    return not any(
        "properties" in each
        for each in (node, node.get("items", {}), node.get("additionalProperties", {}))
    )


FIELDS = {
    path.removeprefix(".")
    for path, node in nodes(SPEC)
    if is_field(node) and not path.endswith(("[]", "{}"))
}
CASES = [(spec, path, edited) for spec in WIDE for path, edited in edits(spec, SPEC)]


def template(before: Manifest, spec: Manifest) -> Any:
    """The driver's pod of the edited spec; of one that is invalid as far as its hash goes."""
    raw = samples.stored()
    try:
        stream = ContinuousStream.model_validate({**raw, "spec": spec})
    except ValidationError:
        stream = ContinuousStream.model_validate({**raw, "spec": before})
    desired = resolve(stream, {**raw, "spec": spec}, samples.SETTINGS)
    return driver_stateful_set(desired)["spec"]["template"]


def test_every_field_is_edited() -> None:
    assert {path for _, path, _ in CASES} == FIELDS
    not_pod = {path for path in FIELDS if change_of(path) in (Change.LIVE, Change.STOP)}
    assert set(EDITS) == not_pod


@pytest.mark.parametrize("path", sorted(FIELDS))
def test_an_edit_of_a_field_replaces_the_pod_if_its_class_says_so(path: str) -> None:
    if change_of(path) is Change.REFUSED:
        return  # there is no such edit
    for before, at, edited in CASES:
        if at == path:
            replaced = template(before, edited) != template(before, before)
            assert replaced is (change_of(path) is Change.POD), edited


def test_the_fields_of_the_class_refused_are_those_that_a_rule_refuses_to_change() -> None:
    rules = [rule["message"] for rule in SPEC["x-kubernetes-validations"]]
    fixed = {found[1] for rule in rules if (found := re.match(r"(\S+) cannot be changed", rule))}
    assert {path for path in FIELDS if change_of(path) is Change.REFUSED} == fixed


def test_each_class_is_of_a_field_that_exists() -> None:
    """A misspelt one would be no class at all."""
    assert set(changes._CHANGES) <= {path.removeprefix(".") for path, _ in nodes(SPEC)}


def test_a_new_field_replaces_the_pod() -> None:
    """Also one of an object with live fields."""
    for path in ("fieldOfTheFuture", "restart.fieldOfTheFuture", "checkpoint.fieldOfTheFuture"):
        assert change_of(path) is Change.POD
        parent, _, field = path.rpartition(".")
        spec = {parent: {field: 1}} if parent else {field: 1}
        assert changes.without_live(spec) == spec


def test_kubectl_explain_says_what_a_change_does() -> None:
    """Of a field that is not as most fields are."""
    says = {path: node.get("description", "") for path, node in nodes(SPEC)}
    assert "A change replaces the driver, unless" in says[""]
    for path in FIELDS:
        change = change_of(path)
        assert ("A change restarts nothing." in says[f".{path}"]) is (change is Change.LIVE)
        assert ("It cannot be changed." in says[f".{path}"]) is (change is Change.REFUSED)
