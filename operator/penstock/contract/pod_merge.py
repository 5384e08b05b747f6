"""Merges a user's pod template with Penstock's own pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The key that identifies an entry of a list, as in Kubernetes' strategic merge; default: `name`.
_KEYS = {"volumeMounts": "mountPath", "ports": "containerPort", "hostAliases": "ip"}


def merge_pod_template(template: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Our pod with the fields that the template adds. Where both set a field, ours wins.

    Of the template's metadata, only labels and annotations are used.
    """
    meta = template.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    kept = {field: meta[field] for field in ("labels", "annotations") if meta.get(field)}
    theirs = {"metadata": kept, "spec": template.get("spec") or {}}
    merged: dict[str, Any] = _merged(theirs, ours, "")
    return merged


def _merged(theirs: Any, ours: Any, field: str) -> Any:
    if field.endswith("Probe"):
        return ours
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        both = {key: _merged(theirs[key], ours[key], key) for key in theirs if key in ours}
        return {**theirs, **ours, **both}
    if isinstance(theirs, list) and isinstance(ours, list):
        return _merged_lists(theirs, ours, field)
    return ours


def _merged_lists(theirs: list[Any], ours: list[Any], field: str) -> list[Any]:
    """Our entries, then the template's entries of other keys.

    Only containers are merged with the template's of the same name. Of anything else, such as a
    volume, its mount or a variable, ours is taken as a whole: a `subPath` at the checkpoint's mount
    would lead elsewhere, and with two sources or handlers the API server refuses the pod.
    """
    key = _KEYS.get(field, "name")
    if not all(_has_key(item, key) for item in (*theirs, *ours)):
        return ours
    rest = {item[key]: item for item in theirs}
    same = [rest.pop(item[key], {}) for item in ours]
    if field == "containers":
        ours = [_merged(theirs, item, "") for theirs, item in zip(same, ours, strict=True)]
    return [*ours, *rest.values()]


def _has_key(entry: Any, key: str) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get(key), str | int)
