"""Generates the CustomResourceDefinition from the models."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import BaseModel

from penstock.api.group_version import GROUP, KIND, MAX_NAME, PLURAL, VERSION
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.restarts_by_field import Change, change_of
from penstock.api.v1alpha1.status import StreamStatus

_FILE_HEAD = "# Generated from operator/penstock/api; run `make generate` to update.\n"

_READY = '.status.conditions[?(@.type=="Ready")]'
_PRINTER_COLUMNS = (
    ("Ready", "string", f"{_READY}.status", "Whether the query runs"),
    ("Reason", "string", f"{_READY}.reason", "Why it is Ready or not"),
    ("Mode", "string", ".status.mode", "How Spark runs the query"),
    ("Lag", "integer", ".status.lag", "Records that the query has not handled"),
    ("Age", "date", ".metadata.creationTimestamp", None),
)
_WIDE_PRINTER_COLUMNS = (
    ("State", "string", ".status.state", "The stream in one word"),
    ("Partitions", "integer", ".status.partitions", "Partitions of the source"),
    ("Executors", "integer", ".status.executors", "Executors registered with the driver"),
    ("Epoch", "integer", ".status.epoch", "The last committed epoch"),
    ("Restarts", "integer", ".status.restarts.total", "Restarts at all levels"),
    ("Image", "string", ".status.effective.image", "The image that runs"),
)


# Whoever stops to apply the definition must not delete every stream of the cluster with it.
_KEPT = {
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition as a plain dict."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}", "annotations": _KEPT},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["cstream"],
                "categories": ["penstock"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        *(_column(*each) for each in _PRINTER_COLUMNS),
                        *({**_column(*each), "priority": 1} for each in _WIDE_PRINTER_COLUMNS),
                    ],
                    "schema": {"openAPIV3Schema": _root_schema()},
                }
            ],
        },
    }


def to_yaml() -> str:
    """The text of the file in crds/.

    In wide lines and with flow style for leaves: indentation would be a third of the text.
    """
    return _FILE_HEAD + yaml.safe_dump(crd(), sort_keys=False, width=1000, default_flow_style=None)


def _column(name: str, kind: str, path: str, description: str | None) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path}
    return column if description is None else {**column, "description": description}


def _root_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A Spark stream that is deployed once and kept running.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec(),
            "status": structural(StreamStatus),
        },
        "x-kubernetes-validations": [
            {
                "rule": f"self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && "
                f"size(self.metadata.name) <= {MAX_NAME}",
                "message": f"metadata.name takes at most {MAX_NAME} characters of a-z, 0-9 and -: "
                "pods are named after it",
            }
        ],
    }


def spec() -> dict[str, Any]:
    """The schema of the spec, whose fields say what a change of them does."""
    schema = structural(StreamSpec)
    _describe_changes(schema, "")
    return schema


# Not of what replaces the pod, as most do: the description of the spec says that.
_SENTENCES = {
    Change.LIVE: "A change restarts nothing.",
    Change.QUERY: "A change replaces only the query.",
    Change.REFUSED: "It cannot be changed.",
}


def _describe_changes(node: dict[str, Any], parent: str) -> None:
    for name, field in node.get("properties", {}).items():
        path = f"{parent}.{name}" if parent else name
        sentence = _SENTENCES.get(change_of(path))
        if sentence is not None and "properties" not in field:
            field["description"] += f" {sentence}"
        _describe_changes(field, path)


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """A model as a structural schema, with its rules as CEL."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    result = _walk(schema, schema.get("$defs", {}))
    assert isinstance(result, dict)
    return result


# Keywords that a structural schema does not have; and `default`, with which the API server would
# write into the resource that the user applied.
_DROPPED = frozenset({"title", "default", "$defs"})


def _walk(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_walk(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(node, definitions)
    if "anyOf" in node:
        return _without_null(node, definitions)
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            result[key] = {name: _walk(each, definitions) for name, each in value.items()}
        elif key == "additionalProperties":
            # `false`: strict validation refuses unknown fields without it. `true`: the API server
            # would drop the content (observed), and preserve-unknown-fields is enough.
            if not isinstance(value, bool):
                result[key] = _walk(value, definitions)
        elif key == "examples":
            result["example"] = value[0]
        elif key not in _DROPPED:
            result[key] = _walk(value, definitions)
    if "const" in result:
        result["enum"] = [result.pop("const")]
        result.setdefault("type", "string")
    return result


def _inline(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    name = node["$ref"].rsplit("/", 1)[-1]
    target = _walk(definitions[name], definitions)
    overrides = _walk({key: value for key, value in node.items() if key != "$ref"}, definitions)
    return {**target, **overrides}


def _without_null(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Turns `X | None` into X: the field is optional."""
    (only,) = [each for each in node["anyOf"] if each != {"type": "null"}]
    overrides = {key: value for key, value in node.items() if key != "anyOf"}
    result = _walk({**only, **overrides}, definitions)
    assert isinstance(result, dict)
    return result
