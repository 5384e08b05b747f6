"""The generated documents agree with the models and the rules."""

from __future__ import annotations

import re

import pytest

from penstock.api.reserved_spark_conf import RESERVED_CONFS
from penstock.sql.supported_operations import COMPLETE_WITHOUT_AGGREGATE, OPERATIONS
from scripts.codegen import chart, crd, reference
from testkit.streams.crd_schema import nodes


def test_the_reference_has_every_field() -> None:
    """With its description."""
    text = reference.reference()
    for path, node in nodes(crd.spec(), "spec"):
        if path[-2:] in ("[]", "{}") or "." not in path:
            continue
        assert f"`{path.rsplit('.', 1)[1]}`" in text, path
        assert node["description"].replace("|", "\\|") in text, path


def test_every_link_in_the_reference_has_its_heading() -> None:
    """Anchors are headings in lower case, without punctuation, as GitHub makes them."""
    text = reference.reference()
    links = set(re.findall(r"\]\(#([^)]*)\)", text))
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings]
    assert len(anchors) == len(set(anchors))
    assert links
    assert links <= set(anchors)


def test_the_reference_has_every_reserved_spark_conf() -> None:
    """With what to use instead."""
    text = reference.reference()
    for name, instead in RESERVED_CONFS.items():
        assert f"| `{name}` | {instead} |" in text


def test_every_operation_has_a_row() -> None:
    """In docs/modes.md, with our description and Spark's name."""
    text = reference.modes()
    for operation in OPERATIONS:
        if operation is not COMPLETE_WITHOUT_AGGREGATE:
            assert f"| {operation.description} | {operation.name} | " in text
    assert "| an aggregate | Aggregate | no | yes | update, complete | no |" in text
    assert "| LIMIT | Limit | no | no | append, complete | no |" in text


VALUES = """\
# A group.
image:
  # Where
  # it is.
  repository: penstock
  tag: ""  # which one
  digest: ""

labels: {a: b}  # not a group
"""


def test_a_value_of_the_chart_is_described_by_its_comment_or_that_of_its_group() -> None:
    found = {value.name: (value.default, value.meaning) for value in chart.parse(VALUES)}
    assert found == {
        "image.repository": ("penstock", "Where it is."),
        "image.tag": ("", "which one"),
        "image.digest": ("", "A group."),
        "labels": ({"a": "b"}, "not a group"),
    }


def test_a_value_of_the_chart_without_a_comment_is_refused() -> None:
    with pytest.raises(ValueError, match="replicas has no comment"):
        list(chart.parse(f"{VALUES}\nreplicas: 2\n"))
