"""Finds what Penstock sets itself, misspelled fields, and wrong types in pod templates.

The CRD keeps a template as it is, and the API server drops what it does not know from a pod. So
nothing else would say that a `nodeSelektor` selects nothing. The models of the Kubernetes client
know every field; the operator has the client, `penstock validate` may not have it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from penstock import DISTRIBUTION
from penstock.api import group_version
from penstock.api.problem import NOT_JUDGED, FieldPath, Problem, dotted
from penstock.api.v1alpha1 import StreamSpec
from penstock.validation.rules.pod_security import mappings

_TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "datetime": str,
}
_WORDS = {
    "str": "a string: put it in quotes", "int": "an integer", "bool": "true or false",
    "float": "a number", "datetime": "a time",
}  # fmt: skip
# Quantities, which the client declares as strings, and Kubernetes takes as numbers as well.
_QUANTITIES = {"limits", "requests", "sizeLimit", "divisor", "overhead", "capacity"}
_LIST = re.compile(r"(?:List|list)\[(.*)\]")
_MAP = re.compile(r"(?:Dict|dict)[\[(]str, (.*)[\])]")
_REASON = "InvalidPodTemplate"
# Penstock adds what a template leaves out of these.
_OPTIONAL = {("V1PodSpec", "containers")}


# Fields that Penstock sets itself.
_POD = {
    "restartPolicy": "the pod's owner restarts it",
    "serviceAccountName": "use spec.serviceAccountName",
    "serviceAccount": "use spec.serviceAccountName",
    "imagePullSecrets": "use spec.imagePullSecrets",
}
_CONTAINER = {
    "image": "use spec.image",
    "command": "the image's own command runs",
    "args": "Penstock sets the arguments",
}
# By these labels and annotations the operator finds its pods, and knows what they run.
_OWN_KEYS = f"{group_version.GROUP}/"
_RESOURCES = ("cpu", "memory")
# Kubernetes' own types have about fifteen levels. The API server stores ten thousand of them where
# the schema declares none, and the operator's functions on templates are recursive.
_MAX_DEPTH = 32


def find_problems(spec: StreamSpec) -> Iterator[Problem]:
    """Problems of the driver's and the executors' templates."""
    for name, template in (
        ("driver", spec.driver.pod_template),
        ("executor", spec.executor.pod_template),
    ):
        path: FieldPath = ("spec", name, "podTemplate")
        refusal = _refusal(template, name)
        if refusal is not None:
            yield Problem("InvalidSpec", f"{dotted(path)}: {refusal}", path=path)
        elif template and _models() is None:
            yield Problem(
                NOT_JUDGED,
                f"spec.{name}.podTemplate: its fields were not checked, which needs "
                f"{DISTRIBUTION}[operator]",
                "notice",
                path,
            )
        elif template:
            yield from _object(template, "V1PodTemplateSpec", path)
            yield from _containers(template, name, path)


def _refusal(template: Mapping[str, Any], container: str) -> str | None:
    if _is_deeper(template, _MAX_DEPTH):
        return f"podTemplate cannot have more than {_MAX_DEPTH} levels"
    reserved = next(_reserved(template, container), None)
    return None if reserved is None else f"podTemplate cannot set {reserved[0]}: {reserved[1]}"


def _reserved(template: Mapping[str, Any], container: str) -> Iterator[tuple[str, str]]:
    for name in template:
        if name not in ("metadata", "spec"):
            yield name, "it takes metadata and spec"
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    if not isinstance(metadata, Mapping):
        yield "metadata to something that is not an object", "write labels and annotations"
        return
    for name in ("labels", "annotations"):
        values = metadata.get(name) or {}
        if not isinstance(values, Mapping):
            yield f"metadata.{name} to something that is not an object", "write names and values"
            continue
        for key in values:
            if key.startswith(_OWN_KEYS):
                yield f"metadata.{name}.{key}", "Penstock sets such keys itself"
    if not isinstance(spec, Mapping):
        yield "spec to something that is not an object", "write the fields of a PodSpec"
        return
    for name, why in _POD.items():
        if name in spec:
            yield f"spec.{name}", why
    for each in mappings(spec.get("containers")):
        if each.get("name") == container:
            yield from _reserved_in_container(each, container)


def _reserved_in_container(each: Mapping[str, Any], container: str) -> Iterator[tuple[str, str]]:
    for name, why in _CONTAINER.items():
        if name in each:
            yield f"{name} of the container {container}", why
    resources = each.get("resources")
    for kind in ("requests", "limits"):
        amounts = resources.get(kind) if isinstance(resources, Mapping) else None
        for name in _RESOURCES:
            if isinstance(amounts, Mapping) and name in amounts:
                field = f"resources.{kind}.{name}"
                yield f"{field} of the container {container}", f"use spec.{container}.{field}"


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested deeper; not recursive itself."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for each in layer
            if isinstance(each, Mapping | list)
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not layer:
            return False
    return any(isinstance(each, Mapping | list) for each in layer)


def _containers(template: Mapping[str, Any], name: str, path: FieldPath) -> Iterator[Problem]:
    spec = template.get("spec")
    for field in ("containers", "initContainers"):
        containers = spec.get(field) if isinstance(spec, dict) else None
        for number, each in enumerate(containers if isinstance(containers, list) else ()):
            if (
                isinstance(each, dict)
                and each.get("name") not in (None, name)
                and not each.get("image")
            ):
                yield _error(
                    (*path, "spec", field, number),
                    f"this container is not the {name}'s, which is named {name}, so it needs an "
                    "image",
                )


def _value(value: Any, declared: str, path: FieldPath) -> Iterator[Problem]:
    if value is None or declared == "object":
        return
    if match := _LIST.fullmatch(declared):
        if isinstance(value, list):
            for number, entry in enumerate(value):
                yield from _value(entry, match[1], (*path, number))
        else:
            yield _error(path, "should be a list")
    elif match := _MAP.fullmatch(declared):
        if isinstance(value, dict):
            for key, entry in value.items():
                yield from _value(entry, match[1], (*path, key))
        else:
            yield _error(path, "should be an object")
    elif declared in _TYPES:
        if not _has_type(value, declared, path):
            yield _error(path, f"should be {_WORDS[declared]}")
    elif not isinstance(value, dict):
        yield _error(path, "should be an object")
    else:
        yield from _object(value, declared, path)


def _has_type(value: Any, declared: str, path: FieldPath) -> bool:
    if isinstance(value, bool):
        return declared == "bool"
    is_quantity = declared == "str" and bool(_QUANTITIES & set(path[-2:]))
    return isinstance(value, _TYPES[declared]) or (is_quantity and isinstance(value, int | float))


def _object(value: Mapping[str, Any], model: str, path: FieldPath) -> Iterator[Problem]:
    fields = _fields(model)
    for name, entry in value.items():
        if name in fields:
            yield from _value(entry, fields[name], (*path, name))
            continue
        near = difflib.get_close_matches(name[:64], fields, n=1, cutoff=0.7)
        if near:
            message = f"Kubernetes has no such field: did you mean {near[0]}?"
            yield _error((*path, name), message)
        else:
            yield _problem(
                (*path, name),
                "Kubernetes has no such field as far as this version of Penstock knows",
                "warning",
            )
    for name in _required(model):
        if value.get(name) is None:
            yield _error(path, f"{name} is required")


def _error(path: FieldPath, text: str) -> Problem:
    return _problem(path, text, "error")


def _problem(path: FieldPath, text: str, severity: Any) -> Problem:
    return Problem(_REASON, f"{dotted(path)}: {text}", severity, path)


@cache
def _models() -> Any:
    """The module with the models; None where the Kubernetes client is not installed."""
    try:
        from kubernetes.client import models
    except ImportError:
        return None
    return models


@cache
def _fields(model: str) -> dict[str, str]:
    """The declared types of a model's fields, by their names in JSON."""
    client_class = getattr(_models(), model)
    types = client_class.openapi_types
    return {json: types[name] for name, json in client_class.attribute_map.items()}


@cache
def _required(model: str) -> tuple[str, ...]:
    """The fields without which the client builds no such object."""
    client_class = getattr(_models(), model)
    return tuple(
        client_class.attribute_map[name]
        for name, field in client_class.model_fields.items()
        if field.is_required() and (model, name) not in _OPTIONAL
    )
