"""The CRD is small, explains itself, and writes nothing into what people applied."""

from collections.abc import Iterator
from typing import Any

from penstock.stream import crd

MAX_BYTES = 100_000


def _nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(node, dict):
        return
    yield path, node
    for name, each in node.get("properties", {}).items():
        yield from _nodes(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        yield from _nodes(node.get(key), f"{path}[]")


def _schema() -> dict[str, Any]:
    (version,) = crd.crd()["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def test_the_crd_is_small_enough_for_client_side_apply() -> None:
    """kubectl apply keeps the object in an annotation of at most 256 KiB."""
    assert len(crd.to_yaml()) < MAX_BYTES


def test_every_field_of_the_spec_is_explained() -> None:
    """`kubectl explain` answers for each with a sentence."""
    spec = _schema()["properties"]["spec"]
    silent = [
        path for path, node in _nodes(spec, "spec")
        if "description" not in node and not path.endswith("[]")
    ]  # fmt: skip
    assert silent == []


def test_nothing_is_defaulted() -> None:
    """What is applied is what is stored, so that GitOps tools see no drift."""
    assert [path for path, node in _nodes(_schema()) if "default" in node] == []
