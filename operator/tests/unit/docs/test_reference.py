"""The documents say what the models and the rules say."""

from __future__ import annotations

from penstock.api.reserved_spark_conf import OWNED_CONFS
from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.operations import NOT_GROUPED, OPERATIONS
from scripts.codegen import crd, reference
from testkit.streams.crd_schema import nodes


def test_every_field_stands_in_the_reference() -> None:
    """In the section of its object, with its description."""
    text = reference.reference()
    for path, node in nodes(crd.structural(StreamSpec), "spec"):
        if path[-2:] in ("[]", "{}") or "." not in path:
            continue
        assert f"`{path.rsplit('.', 1)[1]}`" in text, path
        assert node["description"].replace("|", "\\|") in text, path


def test_every_owned_conf_stands_in_the_reference() -> None:
    """With what to use instead."""
    text = reference.reference()
    for name, instead in OWNED_CONFS.items():
        assert f"| `{name}` | {instead} |" in text


def test_every_operation_has_its_row() -> None:
    """A row for each in docs/modes.md, in words of ours and by Spark's name."""
    text = reference.modes()
    for operation in OPERATIONS:
        if operation is not NOT_GROUPED:
            assert f"| {operation.what} | {operation.name} | " in text
    assert "| an aggregate | Aggregate | no | no | update, complete | no |" in text
    assert "| LIMIT | Limit | no | no | append, complete | no |" in text
