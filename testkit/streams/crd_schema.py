"""Iterates over the fields of the CRD's schema."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml


def schema() -> dict[str, Any]:
    text = resources.files("penstock.api.v1alpha1").joinpath("crd.yaml").read_text()
    (version,) = yaml.safe_load(text)["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field with its path; `[]` is an item of a list, `{}` a value of a map."""
    if not isinstance(node, dict):
        return
    yield path, node
    for name, each in node.get("properties", {}).items():
        yield from nodes(each, f"{path}.{name}")
    yield from nodes(node.get("items"), f"{path}[]")
    yield from nodes(node.get("additionalProperties"), f"{path}{{}}")
