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
# What belongs together: half of a default and half of a spec may contradict each other.
_WHOLE = ("resources",)


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
        return {**stream, "spec": _under(self.spec, stream["spec"])}


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
