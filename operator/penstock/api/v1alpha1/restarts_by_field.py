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
    QUERY = "query"
    """Another query takes the place of the one that runs, in the same Spark session."""
    STOP = "stop"
    """The driver stops, or starts."""
    POD = "pod"
    """Another driver's pod replaces the one that runs."""
    REFUSED = "refused"
    """The API server refuses it."""


# By path. An object's class is that of its fields, too, unless they have one of their own.
# Whatever is not here is POD, and so is a new field. So an object is here as a whole only if all
# that could ever be in it is of its class.
_CHANGES: dict[str, Change] = {
    "className": Change.REFUSED,
    "suspend": Change.STOP,
    "checkpoint.volume": Change.LIVE,
    "checkpoint.volume.storageClassName": Change.REFUSED,
    "checkpoint.objectStore.location": Change.REFUSED,
    "restart.maxAttempts": Change.LIVE,
    "restart.stableAfter": Change.LIVE,
    "rollout": Change.LIVE,
    "ttlSecondsAfterFinished": Change.LIVE,
    "observability.logLevel": Change.LIVE,
    **dict.fromkeys(
        (
            "queryName",
            "source.kafka.options",
            "source.kafka.topics",
            "source.kafka.topicPattern",
            "source.kafka.assign",
            "source.kafka.startingOffsets",
            "source.kafka.startingOffsetsByPartition",
            "source.kafka.failOnDataLoss",
            "source.kafka.consumerGroup",
            "source.kafka.deadLetters",
            "source.kafka.includeHeaders",
            "source.rate",
            "source.custom.options",
            "source.custom.schema",
            "transform.sql",
            "transform.functions",
            "transform.javaFunctions",
            "transform.python.function",
            "transform.python.inline",
            "transform.java",
            "transform.deterministic",
            "transform.watermark",
            "sink.kafka.options",
            "sink.kafka.topic",
            "sink.kafka.delivery",
            "sink.kafka.transactionInterval",
            "sink.jdbc.table",
            "sink.jdbc.write",
            "sink.jdbc.keys",
            "sink.jdbc.latestBy",
            "sink.jdbc.deleteWhen",
            "sink.console",
            "sink.custom.options",
            "sink.custom.partitionBy",
            "sink.python.function",
            "sink.python.inline",
            "sink.python.options",
            "checkpoint.generation",
            "checkpoint.startFrom",
            "checkpoint.statePartitions",
            "trigger.continuous.checkpointInterval",
            "trigger.microBatch.interval",
            "trigger.microBatch.asyncProgress.checkpointInterval",
            "trigger.realTime.batchDuration",
            "outputMode",
        ),
        Change.QUERY,
    ),
}


def change_of(path: str) -> Change:
    """The class of a field, or of one in a list, such as `transform.functions[].name`.

    >>> [change_of(path).value for path in ("suspend", "checkpoint.volume.size", "sink.kafka")]
    ['stop', 'live', 'pod']
    """
    path = path.replace("[]", "").replace("{}", "")
    while path not in _CHANGES and "." in path:
        path = path.rpartition(".")[0]
    return _CHANGES.get(path, Change.POD)


def without_live(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec as if it had never had the fields whose change leaves the query as it is.

    >>> without_live({"image": "a", "queryName": "b", "restart": {"maxAttempts": 5}})
    {'image': 'a', 'queryName': 'b'}
    """
    return _without_all(spec, Change.LIVE, Change.STOP)


def without_query(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same without those, too, whose change leaves the driver's pod as it is.

    >>> without_query({"image": "a", "queryName": "b", "restart": {"maxAttempts": 5}})
    {'image': 'a'}
    """
    return _without_all(spec, Change.LIVE, Change.STOP, Change.QUERY)


def with_live_of(spec: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with another one's fields whose change leaves the query as it is.

    >>> with_live_of({"image": "a", "restart": {"maxAttempts": 5}}, {"image": "b", "suspend": True})
    {'image': 'a', 'suspend': True}
    """
    merged = without_live(spec)
    for path, change in _CHANGES.items():
        if change in (Change.LIVE, Change.STOP):
            merged = _with_field_of(merged, other, *path.split("."))
    return merged


def _with_field_of(
    value: Mapping[str, Any], other: Mapping[str, Any], field: str, *below: str
) -> dict[str, Any]:
    """The object with this field of the other one, if it has it."""
    if field not in other:
        return dict(value)
    inner = other[field]
    if below and isinstance(inner, Mapping):
        inner = _with_field_of(value.get(field) or {}, inner, *below)
        if not inner:
            return dict(value)
    elif below:
        return dict(value)
    return {**value, field: inner}


def _without_all(spec: Mapping[str, Any], *changes: Change) -> dict[str, Any]:
    rest = dict(spec)
    for path, change in _CHANGES.items():
        if change in changes:
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
