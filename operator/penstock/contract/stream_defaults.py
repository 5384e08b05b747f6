"""What the cluster's administrator sets for the streams whose spec does not. Pure.

Defaults are in no document and in no hash. So they reach a stream with its next pod, and a new one
restarts nothing. The driver is told them by an environment variable of its pod.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.api.reserved_spark_conf import (
    OF_EXECUTORS,
    RESERVED_IN_OBJECT_STORE,
    SHUFFLE_PARTITIONS,
)

# Fields of the spec. A live one is not among them: drivers follow those of the stream at once.
ALLOWED = ("imagePullSecrets", "checkpoint", "driver", "executor", "sparkConf")
# What belongs together: half of a default and half of a spec may contradict each other, and
# credentials must not go to another store.
_WHOLE = ("resources", "objectStore")
# Where a checkpoint is: one of these.
_PLACES = ("volume", "objectStore")
_STATE_PARTITIONS = "statePartitions"


@dataclass(frozen=True)
class StreamDefaults:
    """Fields of the spec of a stream, as a manifest has them."""

    spec: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> StreamDefaults:
        """Raises ValueError if the text is no object; an empty text is an empty one."""
        spec = json.loads(text or "{}")
        if not isinstance(spec, dict):
            raise ValueError("not an object")
        return cls(spec)

    def as_json(self) -> str:
        return json.dumps(self.spec, sort_keys=True)

    def under(self, stream: Mapping[str, Any]) -> dict[str, Any]:
        """A stream whose spec has each of these fields that it does not set.

        >>> defaults = StreamDefaults({"sparkConf": {"a": "1", "b": "1"}})
        >>> defaults.under({"spec": {"sparkConf": {"b": "2"}}})
        {'spec': {'sparkConf': {'a': '1', 'b': '2'}}}

        A default that excludes what the stream sets gives way to it. What it says of executors does
        not ask for any.
        """
        if not isinstance(stream.get("spec"), Mapping):
            return dict(stream)
        own = stream["spec"]
        defaults = _without_excluded(self.spec, own)
        if not _asks_for_executors(own) and _asks_for_executors(defaults):
            executor = {"mode": "Auto", **_fields(defaults, "executor")}
            defaults = {**defaults, "executor": executor}
        return {**stream, "spec": _under(defaults, own)}

    @property
    def object_store(self) -> Mapping[str, Any] | None:
        """Where the checkpoints are of streams that do not say it; None for volumes."""
        store = _checkpoint(self.spec).get("objectStore")
        return store if isinstance(store, Mapping) else None

    def with_object_store(self, store: Mapping[str, Any] | None) -> StreamDefaults:
        """These defaults with another place for checkpoints."""
        if store == self.object_store:
            return self
        others = {name: it for name, it in self.spec.items() if name != "checkpoint"}
        known = _checkpoint(self.spec)
        kept = {name: it for name, it in known.items() if name not in _PLACES or store is None}
        kept.pop("objectStore", None)
        checkpoint = {**kept, **({} if store is None else {"objectStore": store})}
        return StreamDefaults({**others, **({"checkpoint": checkpoint} if checkpoint else {})})


def names_place(spec: Mapping[str, Any]) -> bool:
    """Whether a spec says itself whether its checkpoint is on a volume or in an object store."""
    return bool(_places(spec))


NO_DEFAULTS = StreamDefaults()


def _under(defaults: Any, own: Any) -> Any:
    if not isinstance(defaults, Mapping) or not isinstance(own, Mapping):
        return own
    both = {
        name: _under(defaults[name], own[name])
        for name in defaults
        if name in own and name not in _WHOLE
    }
    return {**defaults, **own, **both}


def _without_excluded(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the defaults that the rules of a spec refuse beside what the stream sets."""
    places = _places(own)
    no_checkpoint = {name for name in _PLACES if places and name not in places}
    no_conf = set(_fields(own, "secretSparkConf"))
    if SHUFFLE_PARTITIONS in _fields(own, "sparkConf"):
        no_checkpoint.add(_STATE_PARTITIONS)
    if _checkpoint(own).get(_STATE_PARTITIONS) is not None:
        no_conf.add(SHUFFLE_PARTITIONS)
    if "objectStore" in places:
        no_conf.update(RESERVED_IN_OBJECT_STORE)
    no_executor: set[str] = set()
    executor = _fields(own, "executor")
    if executor.get("mode") == "InDriver":
        no_executor.update(_fields(defaults, "executor"))
        no_conf.update(name for name in _fields(defaults, "sparkConf") if _is_of_executors(name))
    elif _fields(defaults, "executor").get("mode") == "InDriver" and _asks_for_executors(own):
        no_executor.add("mode")
    return {
        **defaults,
        **_left(defaults, "executor", no_executor),
        **_left(defaults, "checkpoint", no_checkpoint),
        **_left(defaults, "sparkConf", no_conf),
    }


def _asks_for_executors(spec: Mapping[str, Any]) -> bool:
    return bool(_fields(spec, "executor")) or any(map(_is_of_executors, _fields(spec, "sparkConf")))


def _is_of_executors(conf: str) -> bool:
    return re.search(OF_EXECUTORS, conf) is not None


def _left(spec: Mapping[str, Any], field: str, without: set[str]) -> Mapping[str, Any]:
    """A field of a spec without some of its own, if the spec has it."""
    if field not in spec:
        return {}
    kept = {name: it for name, it in _fields(spec, field).items() if name not in without}
    return {field: kept}


def _places(spec: Mapping[str, Any]) -> list[str]:
    return [name for name in _PLACES if _checkpoint(spec).get(name) is not None]


def _checkpoint(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return _fields(spec, "checkpoint")


def _fields(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    fields = spec.get(name)
    return fields if isinstance(fields, Mapping) else {}
