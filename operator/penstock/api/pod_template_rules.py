"""What a pod template may not say, because Penstock says it itself.

Not in the CRD: the template is whatever Kubernetes knows, and CEL sees no undeclared fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_POD = {
    "restartPolicy": "the pod is kept running by its owner",
    "serviceAccountName": "use spec.serviceAccountName",
    "serviceAccount": "use spec.serviceAccountName",
    "imagePullSecrets": "use spec.imagePullSecrets",
}
_CONTAINER = {
    "image": "use spec.image",
    "command": "it is the image's own",
    "args": "they are Penstock's own",
}
_RESOURCES = {"cpu": "use cores and coreRequest", "memory": "use memory and memoryOverhead"}


def refusal(template: Mapping[str, Any], container: str) -> str | None:
    """Why a template for the pod whose container has this name is refused; None if it is not."""
    found = next(_owned(template, container), None)
    return None if found is None else f"podTemplate cannot set {found[0]}: {found[1]}"


def _owned(template: Mapping[str, Any], container: str) -> Iterator[tuple[str, str]]:
    for name in template:
        if name not in ("metadata", "spec"):
            yield name, "it takes metadata and spec"
    spec = template.get("spec") or {}
    if not isinstance(spec, Mapping):
        yield "spec to what is no object", "write the fields of a PodSpec"
        return
    for name, why in _POD.items():
        if name in spec:
            yield f"spec.{name}", why
    for each in _listed(spec.get("containers")):
        if each.get("name") == container:
            yield from _owned_of_container(each, container)


def _owned_of_container(each: Mapping[str, Any], container: str) -> Iterator[tuple[str, str]]:
    for name, why in _CONTAINER.items():
        if name in each:
            yield f"{name} of the container {container}", why
    resources = each.get("resources")
    for kind in ("requests", "limits"):
        amounts = resources.get(kind) if isinstance(resources, Mapping) else None
        for name, why in _RESOURCES.items():
            if isinstance(amounts, Mapping) and name in amounts:
                yield f"resources.{kind}.{name} of the container {container}", why


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
