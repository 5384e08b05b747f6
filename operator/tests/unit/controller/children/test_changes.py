"""An edit of any field of the spec does to the driver's pod what the field's class says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.api.v1alpha1 import restarts_by_field
from penstock.api.v1alpha1.restarts_by_field import (
    Change,
    change_of,
    with_live_of,
    without_live,
)
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.kinds import Manifest
from penstock.contract.edit_effects import change_of_edit, edited_fields
from penstock.controller.children.revision import Revision, resolve
from penstock.controller.children.stateful_set import driver_stateful_set
from testkit.controller import samples
from testkit.streams.crd_schema import nodes, schema
from testkit.streams.edits import walks
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
    "rollout.deadline": "9m",
    "rollout.rollback": "Never",
    "ttlSecondsAfterFinished": 9,
    "observability.logLevel": "DEBUG",
}
GONE = object()
# Of these, source and sink take what they need.
SHARED: dict[str, Any] = {
    "kafka": {"bootstrapServers": "k:1", "secretOptions": {"kafka.rack": {"name": "s", "key": "k"}}}
}


def with_inline_python(spec: Manifest) -> Manifest:
    """The spec without a ConfigMap, whose Python is never edited alone."""
    python = spec.get("transform", {}).get("python", {})
    if "configMap" not in python:
        return spec
    others = {name: value for name, value in python.items() if name != "configMap"}
    return {**spec, "transform": {"python": {**others, "inline": "def f(source): return source"}}}


def of_config_map(function: str) -> dict[str, Any]:
    python = {"function": function, "configMap": {"name": "code", "key": "m.py"}}
    return {"transform": {"python": python}, "sink": {"noop": {}}}


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
CASES = [
    (spec, path, edited)
    for spec in (*WIDE, *map(with_inline_python, WIDE))
    for path, edited in edits(spec, SPEC)
]


def revision(before: Manifest, spec: Manifest) -> Revision:
    """Of the edited spec; of one that is invalid as far as its hashes go."""
    raw = samples.stored()
    try:
        stream = ContinuousStream.model_validate({**raw, "spec": spec})
    except ValidationError:
        stream = ContinuousStream.model_validate({**raw, "spec": before})
    return resolve(stream, {**raw, "spec": spec}, samples.SETTINGS)


def test_every_field_is_edited() -> None:
    assert {path for _, path, _ in CASES} == FIELDS
    not_pod = {path for path in FIELDS if change_of(path) in (Change.LIVE, Change.STOP)}
    assert set(EDITS) == not_pod


def test_each_field_is_edited_on_the_cluster() -> None:
    """By e2e/chaos/test_each_field.py, whose edits are those of their fields' classes."""
    edited = set()
    for walk in walks("kafka:9092", "payments"):
        for edit, before, after in walk.steps():
            paths = list(edited_fields(first_of_lists(before), first_of_lists(after)))
            edited |= {field for field in FIELDS for path in paths if is_of(field, path)}
            classes = {change_of(".".join(path)) for path in paths}
            assert change_of_edit(before, after) in classes, edit
    assert edited == FIELDS


def first_of_lists(value: Any) -> Any:
    """The value with the first object of each list of objects in place of the list."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return first_of_lists(value[0])
    if isinstance(value, dict):
        return {name: first_of_lists(inner) for name, inner in value.items()}
    return value


def is_of(field: str, path: tuple[str, ...]) -> bool:
    """Whether a path is that of the field, or of what users name in it."""
    named: list[str | None] = []
    for name in field.replace("[]", "").split("."):
        named += [name[:-2], None] if name.endswith("{}") else [name]
    return len(named) <= len(path) and all(
        name in (None, found) for name, found in zip(named, path, strict=False)
    )


@pytest.mark.proves("operate.md#edit")
@pytest.mark.parametrize("path", sorted(FIELDS))
def test_an_edit_of_a_field_replaces_what_its_class_says(path: str) -> None:
    change = change_of(path)
    if change is Change.REFUSED:
        return  # there is no such edit
    same_pod = set()
    for before, at, edited in CASES:
        if at == path:
            old, new = revision(before, before), revision(before, edited)
            old_pod, new_pod = (driver_stateful_set(it)["spec"]["template"] for it in (old, new))
            assert (old_pod == new_pod) is (old.pod_hash == new.pod_hash), edited
            same_pod.add(old_pod == new_pod)
            is_another = old.spec_hash != new.spec_hash
            assert is_another is (change in (Change.POD, Change.QUERY)), edited
    if change is Change.QUERY:  # unless other fields make it need another pod
        assert True in same_pod
    else:
        assert same_pod == {change is not Change.POD}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"trigger": {"microBatch": {}}}, {"trigger": {"microBatch": {"asyncProgress": {}}}}),
        ({"trigger": {"microBatch": {"interval": "1s"}}},
         {"trigger": {"continuous": {"checkpointInterval": "1s"}}}),
        ({"transform": {"sql": "SELECT * FROM source"}},
         {"transform": {"python": {"function": "a:b", "inline": "def b(source): return source"}}}),
        ({"source": {"rate": {}}}, {"source": {"socket": {"host": "a", "port": 1}}}),
        ({**SHARED, "source": {"rate": {}}}, {**SHARED, "source": {"kafka": {"topics": ["a"]}}}),
        ({**SHARED, "source": {"kafka": {"topics": ["a"], "options": {"kafka.rack": "b"}}}},
         {**SHARED, "source": {"kafka": {"topics": ["a"]}}}),
        (of_config_map("m:one"), of_config_map("m:two")),
    ],
    ids=["async", "mode", "python", "socket", "secret", "hidden-secret", "config-map"],
)  # fmt: skip
def test_what_a_running_session_cannot_change_replaces_the_pod(
    before: Manifest, after: Manifest
) -> None:
    """Although an edit of each field in it would not."""
    assert samples.desired(**before).pod_hash != samples.desired(**after).pod_hash


def test_the_fields_of_the_class_refused_are_those_that_a_rule_refuses_to_change() -> None:
    rules = [rule["message"] for rule in SPEC["x-kubernetes-validations"]]
    fixed = {found[1] for rule in rules if (found := re.match(r"(\S+) cannot be changed", rule))}
    assert {path for path in FIELDS if change_of(path) is Change.REFUSED} == fixed


def test_each_class_is_of_a_field_that_exists() -> None:
    """A misspelt one would be no class at all."""
    assert set(restarts_by_field._CHANGES) <= {path.removeprefix(".") for path, _ in nodes(SPEC)}


def test_an_earlier_spec_takes_the_live_fields_of_the_newest() -> None:
    """And nothing else: what runs is the earlier one."""
    for before in WIDE:
        for path, edited in edits(before, SPEC):
            merged = with_live_of(before, edited)
            assert without_live(merged) == without_live(before), path
            if path in EDITS:
                assert merged == with_live_of(edited, edited), path


def test_a_new_field_replaces_the_pod() -> None:
    """Also one of an object with live fields."""
    for path in ("fieldOfTheFuture", "restart.fieldOfTheFuture", "checkpoint.fieldOfTheFuture"):
        assert change_of(path) is Change.POD
        parent, _, field = path.rpartition(".")
        spec = {parent: {field: 1}} if parent else {field: 1}
        assert without_live(spec) == spec


def test_kubectl_explain_says_what_a_change_does() -> None:
    """Of a field that is not as most fields are."""
    says = {path: node.get("description", "") for path, node in nodes(SPEC)}
    assert "A change replaces the driver, unless" in says[""]
    for path in FIELDS:
        change, said = change_of(path), says[f".{path.partition('[]')[0].partition('{}')[0]}"]
        assert ("A change restarts nothing." in said) is (change is Change.LIVE)
        assert ("A change replaces only the query." in said) is (change is Change.QUERY)
        assert ("It cannot be changed." in said) is (change is Change.REFUSED)
