"""What the cluster's administrator sets for the streams whose spec does not. Pure.

Defaults are in no document and in no hash. So they reach a stream with its next pod, and a new one
restarts nothing. The driver is told them by an environment variable of its pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Fields of the spec. A live one is not among them: drivers follow those of the stream at once.
ALLOWED = ("imagePullSecrets", "checkpoint", "driver", "executor", "sparkConf")
# What belongs together: half of a default and half of a spec may contradict each other, and
# credentials must not go to another store.
_WHOLE = ("resources", "objectStore")
# Where a checkpoint is: one of these.
_PLACES = ("volume", "objectStore")


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
        """
        if not isinstance(stream.get("spec"), Mapping):
            return dict(stream)
        own = stream["spec"]
        return {**stream, "spec": _under(_without_other_place(self.spec, own), own)}

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


def _without_other_place(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a default volume under an own object store, and the reverse."""
    places = _places(own)
    if not places:
        return defaults
    checkpoint = {
        name: value
        for name, value in _checkpoint(defaults).items()
        if name not in _PLACES or name in places
    }
    return {**defaults, "checkpoint": checkpoint} if "checkpoint" in defaults else defaults


def _places(spec: Mapping[str, Any]) -> list[str]:
    return [name for name in _PLACES if _checkpoint(spec).get(name) is not None]


def _checkpoint(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    checkpoint = spec.get("checkpoint")
    return checkpoint if isinstance(checkpoint, Mapping) else {}
