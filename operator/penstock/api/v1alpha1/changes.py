"""What a change of each field of the spec does to a stream that runs.

The operator's hash of a spec, what a driver follows, the CRD and the reference read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Change(StrEnum):
    """What a change of a field does."""

    LIVE = "live"
    """Nothing restarts."""
    STOP = "stop"
    """The driver stops, or starts."""
    POD = "pod"
    """Another driver's pod replaces the one that runs."""
    REFUSED = "refused"
    """The API server refuses it."""


# By path. An object's class is that of its fields, too, unless they have one of their own.
# Whatever is not here is POD, and so is a new field. So an object is here as a whole only if the
# driver reads nothing of it: the volume is the operator's.
_CHANGES: dict[str, Change] = {
    "className": Change.REFUSED,
    "suspend": Change.STOP,
    "checkpoint.volume": Change.LIVE,
    "checkpoint.volume.storageClassName": Change.REFUSED,
    "restart.maxAttempts": Change.LIVE,
    "restart.stableAfter": Change.LIVE,
    "observability.logLevel": Change.LIVE,
}
_LEFT_OUT = [path for path, change in _CHANGES.items() if change in (Change.LIVE, Change.STOP)]


def change_of(path: str) -> Change:
    """The class of a field.

    >>> [change_of(path).value for path in ("suspend", "checkpoint.volume.size", "sink.kafka")]
    ['stop', 'live', 'pod']
    """
    while path not in _CHANGES and "." in path:
        path = path.rpartition(".")[0]
    return _CHANGES.get(path, Change.POD)


def without_live(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec as if it had never had the fields whose change leaves the driver's pod as it is.

    >>> without_live({"image": "a", "restart": {"maxAttempts": 5}})
    {'image': 'a'}
    """
    rest = dict(spec)
    for path in _LEFT_OUT:
        rest = _without(rest, *path.split("."))
    return rest


def _without(value: Mapping[str, Any], field: str, *below: str) -> dict[str, Any]:
    """The object without the field, and without the objects that are empty then."""
    rest = dict(value)
    inner = rest.get(field)
    if below and isinstance(inner, Mapping):
        inner = _without(inner, *below)
        rest[field] = inner
    if not below or inner == {}:
        rest.pop(field, None)
    return rest
