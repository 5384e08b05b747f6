"""Reads fields that may be absent, null or of another shape. No function here raises.

The API server checks the objects that the operator observes, but not as strictly as it seems: the
kubelet leaves times empty after a reboot of its node, other clients write annotations, and a later
Kubernetes adds words. One odd field must not stop the stream that it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

# metav1.Condition allows these characters in a reason, and 1024 of them.
_NOT_IN_REASON = re.compile(r"[^A-Za-z0-9_]")
_MAX_REASON_CHARACTERS = 256
_MAX_INT32 = 2**31 - 1
# How much of a message is kept in a status. The API accepts 32768 bytes in a condition's message.
MAX_MESSAGE_CHARACTERS = 4096


def at(value: Any, *path: str) -> Any:
    """The value below these fields; None where one of them is missing."""
    for field in path:
        value = mapping(value).get(field)
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; empty if the value is something else."""
    # Almost all are plain ones, and to ask for any other takes ten times as long.
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; without entries that are something else."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def texts(value: Any) -> Mapping[str, str]:
    """The texts in an object, such as labels; without entries that are something else."""
    return {key: each for key, each in mapping(value).items() if isinstance(each, str)}


def text(value: Any) -> str:
    """A text; empty if the value is something else."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A number from 0 to the largest int32; 0 if the value is something else."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return max(0, min(value, _MAX_INT32)) if is_number else 0


def timestamp(value: Any) -> datetime | None:
    """A time with its zone; None if the value is something else."""
    try:
        time = datetime.fromisoformat(text(value))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def reason(value: Any, default: str) -> str:
    """The value as a condition's reason; the default if nothing of it may be one."""
    allowed = _NOT_IN_REASON.sub("", text(value)).lstrip("0123456789_")
    return allowed[:_MAX_REASON_CHARACTERS] or default
