"""How large a spec may be, before anybody parses it.

It must fit the annotation in which `kubectl apply` keeps it (256 KiB for all), and the ConfigMap
that the driver reads (1 MiB). The API server itself takes ten times as much.
"""

from __future__ import annotations

import json
from typing import Any

from penstock.api.problem import Problem

MOST_BYTES = 128 * 2**10


def measure(value: Any) -> int:
    """The size in bytes as JSON of ASCII characters."""
    return len(json.dumps(value, separators=(",", ":"), default=str))


def refusal(size: int) -> Problem | None:
    """Why a spec of this size is not read."""
    if size <= MOST_BYTES:
        return None
    return Problem(
        "SpecTooLarge",
        f"spec: has {-(-size // 1024)} KiB as JSON, and at most {MOST_BYTES // 1024} KiB are read: "
        "put long texts and lists into a ConfigMap or into the image, and refer to them",
        path=("spec",),
    )
