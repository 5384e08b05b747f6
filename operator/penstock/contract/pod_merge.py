"""A user's pod template laid under Penstock's own pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How entries of a list are told apart, as in Kubernetes' own strategic merge; `name` if not here.
_KEYS = {"volumeMounts": "mountPath", "ports": "containerPort", "hostAliases": "ip"}


def laid_under(template: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Ours, with what the template adds: of its metadata labels and annotations only."""
    meta = template.get("metadata") or {}
    kept = {field: meta[field] for field in ("labels", "annotations") if meta.get(field)}
    under = {"metadata": kept, "spec": template.get("spec") or {}}
    merged: dict[str, Any] = _merged(under, ours, "")
    return merged


def _merged(under: Any, over: Any, field: str) -> Any:
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        both = {key: _merged(under[key], over[key], key) for key in under if key in over}
        return {**under, **over, **both}
    if isinstance(under, list) and isinstance(over, list):
        return _merged_lists(under, over, _KEYS.get(field, "name"))
    return over


def _merged_lists(under: list[Any], over: list[Any], key: str) -> list[Any]:
    """Ours first, each with what the template's entry of the same key adds; then its others."""
    entries = [*under, *over]
    if not all(isinstance(each, Mapping) and key in each for each in entries):
        return over
    theirs = {each[key]: each for each in under}
    ours = [_merged(theirs.pop(each[key], {}), each, "") for each in over]
    return [*ours, *theirs.values()]
