"""Log lines for people: of the driver, of its JVM and of executors, in order of time. Pure."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.client.formatting import printable
from penstock.cluster.lenient_fields import text as as_text
from penstock.cluster.pods import Pod

# Spark's own label of an executor's pod.
_EXECUTOR_ID = "spark-exec-id"
# What a line shows by itself; all other fields follow as name=value.
_SHOWN = frozenset({"time", "level", "message", "logger", "trace"})
_SOURCE_WIDTH = 10
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}


@dataclass(frozen=True, order=True)
class Line:
    time: str
    """When the kubelet received it, in RFC 3339 and UTC; so texts sort as times do."""
    source: str
    """Short for the container: driver, or exec-1."""
    text: str


def source_of(pod: Pod) -> str:
    """Short for a pod of a stream."""
    if pod.is_driver:
        return "driver"
    number = pod.labels.get(_EXECUTOR_ID)
    return f"exec-{number}" if number else pod.name


def parse_line(source: str, raw: str) -> Line:
    """A line as the API server returns it with `timestamps`."""
    time, _, text = raw.partition(" ")
    return Line(time, source, text)


def merge(logs: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """The lines of several logs, the oldest first."""
    return heapq.merge(*logs, key=lambda line: line.time)


def for_people(line: Line) -> str:
    """Time, level, source and message; the fields of a JSON line as name=value."""
    entry = _entry(line.text)
    if entry is None:
        return _format(line.time, "", line.source, printable(line.text))
    package, _, logger = as_text(entry.get("logger")).rpartition(".")
    is_ours = not package or package.split(".")[0] == "penstock"
    source = "jvm" if line.source == "driver" and not is_ours else line.source
    message = " ".join(
        part
        for part in (
            "" if is_ours else f"{logger}:",
            as_text(entry.get("message")),
            *(f"{name}={_value(value)}" for name, value in entry.items() if name not in _SHOWN),
        )
        if part
    )
    level = as_text(entry.get("level"))
    time = as_text(entry.get("time")) or line.time
    return _format(time, _LEVELS.get(level, level), source, printable(message))


def _format(time: str, level: str, source: str, message: str) -> str:
    return f"{time[11:23]:<12} {level:<5} {source:<{_SOURCE_WIDTH}} | {message}"


def _entry(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text) if " " in text or not text else text
