"""The last warning or error of a log that grows: JSON lines of ours, log4j's of the JVM."""

from __future__ import annotations

import json
import re
from pathlib import Path

_LOUD = {"WARNING", "ERROR", "CRITICAL"}
# log4j2.properties: time, level, class, message.
_JVM = re.compile(r"^\d\S+T(\d\d:\d\d:\d\d)\S* (WARN|ERROR|FATAL) (.*)")

# Spark says so at each start in these modes; it is true and harmless.
_HARMLESS = ("ContinuousExecution: Disabling AQE", "MicroBatchExecution: Disabling AQE")


def complaint(line: str) -> str | None:
    """What a line complains of, in a line for people; None if it does not."""
    if line.startswith("{"):
        return _of_ours(line)
    found = _JVM.match(line)
    if found is None or found[3].startswith(_HARMLESS):
        return None
    return f"{found[1]} {found[3].strip()}"


def _of_ours(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in _LOUD:
        return None
    words = [entry.get("message"), entry.get("reason"), entry.get("cause") or entry.get("error")]
    said = ": ".join(str(word) for word in words if word)
    return f"{str(entry.get('time', ''))[11:19]} {said}".strip()


class LogTail:
    """Reads what a file has grown by, and keeps the last complaint."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size if path.exists() else 0
        self._rest = b""
        self.complaint = ""

    def look(self) -> str:
        """The last complaint so far; empty if there was none."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            grown = file.read()
        self._at += len(grown)
        *lines, self._rest = (self._rest + grown).split(b"\n")
        for line in lines:
            self.complaint = complaint(line.decode(errors="replace")) or self.complaint
        return self.complaint
