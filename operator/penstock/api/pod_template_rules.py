"""The fields that a pod template must not set, because Penstock sets them itself.

The CRD does not check them: a template can hold whatever Kubernetes knows, and CEL cannot see
fields that the schema does not declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
_RESOURCES = ("cpu", "memory")
# Kubernetes' own types have about fifteen levels. The API server stores ten thousand of them where
# the schema declares none, and the operator's functions on templates are recursive.
_MAX_DEPTH = 32


def refusal(template: Mapping[str, Any], container: str) -> str | None:
    """Why the template of the pod with this container is refused; None if it is accepted.

    The container's name, `driver` or `executor`, is also that of the spec's field.
    """
    if _is_deeper(template, _MAX_DEPTH):
        return f"podTemplate cannot have more than {_MAX_DEPTH} levels"
    found = next(_reserved(template, container), None)
    return None if found is None else f"podTemplate cannot set {found[0]}: {found[1]}"


def _reserved(template: Mapping[str, Any], container: str) -> Iterator[tuple[str, str]]:
    for name in template:
        if name not in ("metadata", "spec"):
            yield name, "it takes metadata and spec"
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    if not isinstance(metadata, Mapping):
        yield "metadata to something that is not an object", "write labels and annotations"
        return
    for name in ("labels", "annotations"):
        if not isinstance(metadata.get(name) or {}, Mapping):
            yield f"metadata.{name} to something that is not an object", "write names and values"
    if not isinstance(spec, Mapping):
        yield "spec to something that is not an object", "write the fields of a PodSpec"
        return
    for name, why in _POD.items():
        if name in spec:
            yield f"spec.{name}", why
    for each in _objects(spec.get("containers")):
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


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


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
