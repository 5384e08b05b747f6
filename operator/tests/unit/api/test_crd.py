"""The CRD is small, describes every field, and adds nothing to the applied resource."""

import re

import durationpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.predicates import ValidationRule
from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1.base import DURATION_RULE
from penstock.api.v1alpha1.triggers import LONG_ENOUGH, POSITIVE, SHORTEST_REAL_TIME_BATCH_MS
from scripts.codegen import crd
from testkit.streams.crd_schema import nodes, schema

MAX_BYTES = 192_000


def test_the_crd_is_small_enough_for_client_side_apply() -> None:
    """kubectl apply stores the object in an annotation of at most 256 KiB."""
    assert len(crd.to_yaml()) < MAX_BYTES


def test_no_tool_prunes_the_crd_with_its_manifest() -> None:
    """With it would go every stream of the cluster."""
    annotations = crd.crd()["metadata"]["annotations"]
    assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"
    assert "Prune=false" in annotations["argocd.argoproj.io/sync-options"]


@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_field_has_a_description(part: str) -> None:
    """`kubectl explain` shows it."""
    silent = [
        path
        for path, node in nodes(schema()["properties"][part], part)
        if path[-2:] not in ("[]", "{}")
        and not node.get("description", "").endswith((".", ")", "`"))
    ]
    assert silent == []


def test_the_content_of_a_field_without_a_schema_is_kept() -> None:
    """With `additionalProperties: true` as well, the API server would drop the content."""
    for path, node in nodes(schema()):
        if node.get("x-kubernetes-preserve-unknown-fields"):
            assert "additionalProperties" not in node, path


_UNITS = [
    "ms", "millis", "millisecond", "milliseconds", "s", "sec", "second", "seconds", "m", "min",
    "minute", "minutes", "h", "hour", "hours",
]  # fmt: skip
numbers = (
    st.one_of(st.integers(0, 12), st.integers(0, 7000)).map(str)
    | st.integers(0, 99).map(lambda n: f"00{n}")
    | st.decimals(0, 12, places=3).map(str)
)
parts = st.builds("{}{}{}".format, numbers, st.sampled_from(["", " "]), st.sampled_from(_UNITS))
durations = st.builds(
    lambda parts, space: space.join(parts),
    st.lists(parts, min_size=1, max_size=3),
    st.sampled_from(["", " "]),
)


@given(durations)
def test_the_rules_on_durations_give_the_same_answer_in_cel_and_in_the_models(text: str) -> None:
    """RE2 and Python read the expression alike; durationpy reads a duration as CEL does (Go)."""
    assert _matches(DURATION_RULE.predicate.cel, text)
    assert _long_enough(POSITIVE, text) == (milliseconds(text) > 0)
    assert _long_enough(LONG_ENOUGH, text) == (milliseconds(text) >= SHORTEST_REAL_TIME_BATCH_MS)


@given(st.text("0123456789. smhinutecodl", max_size=24))
def test_a_duration_is_refused_by_cel_and_the_models_alike(text: str) -> None:
    """Most of these texts are not durations."""
    try:
        milliseconds(text)
    except ValueError:
        assert not _matches(DURATION_RULE.predicate.cel, text)
    else:
        assert _matches(DURATION_RULE.predicate.cel, text)


def _matches(cel: str, text: str) -> bool:
    found = re.fullmatch(r'self\.matches\("(.*)"\)', cel)
    assert found is not None
    return re.search(found[1].replace("\\\\", "\\"), text) is not None


def _long_enough(rule: ValidationRule, text: str) -> bool:
    """Evaluates the rule as CEL does: replaces the units of Spark, and compares."""
    found = re.fullmatch(
        r"!(self\.matches.*) \|\| duration\(self(.*)\) >= duration\('(.*)'\)", rule.predicate.cel
    )
    assert found is not None
    assert _matches(found[1], text)
    for old, new in re.findall(r'\.replace\("(.*?)", "(.*?)"\)', found[2]):
        text = text.replace(old, new)
    return bool(durationpy.from_str(text) >= durationpy.from_str(found[3]))


# Structural schemas know no other keyword; the API server refuses a CRD with one.
STRUCTURAL = {
    "type", "description", "example", "properties", "required", "items", "additionalProperties",
    "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties",
}  # fmt: skip


def test_the_schema_has_only_keywords_that_the_api_server_knows() -> None:
    """pydantic writes others too, such as propertyNames."""
    used = {each for _, node in nodes(schema()) for each in node}
    assert {each for each in used - STRUCTURAL if not each.startswith("x-kubernetes-")} == set()


def test_a_bound_is_that_of_its_type() -> None:
    """pydantic gives a map behind a validator the bounds of a string, and its rules cost more."""
    bounds = {"maxLength": "string", "maxItems": "array", "maxProperties": "object"}
    wrong = [
        (path, name)
        for path, node in nodes(schema())
        for name, kind in bounds.items()
        if name in node and node.get("type", kind) != kind
    ]
    assert wrong == []


def test_nothing_is_defaulted() -> None:
    """The API server stores what was applied, so GitOps tools see no drift."""
    assert [path for path, node in nodes(schema()) if "default" in node] == []
