"""The last warning or error of a growing log: the driver's JSON lines and the JVM's log4j lines."""

from __future__ import annotations

import json
import re
from pathlib import Path

_LEVELS = {"WARNING", "ERROR", "CRITICAL"}
# The layout of log4j2.properties: time, level, class, message.
_JVM_LINE = re.compile(r"^\d\S+T(\d\d:\d\d:\d\d)\S* (WARN|ERROR|FATAL) (.*)")

# Spark logs this at each start in these modes; it is harmless.
_HARMLESS = ("ContinuousExecution: Disabling AQE", "MicroBatchExecution: Disabling AQE")


def warning_in(line: str) -> str | None:
    """The time and text of a log line that is a warning or an error; None for any other line."""
    if line.startswith("{"):
        return _warning_in_json(line)
    found = _JVM_LINE.match(line)
    if found is None or found[3].startswith(_HARMLESS):
        return None
    return f"{found[1]} {found[3].strip()}"


def _warning_in_json(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in _LEVELS:
        return None
    words = [entry.get("message"), entry.get("reason"), entry.get("cause") or entry.get("error")]
    text = ": ".join(str(word) for word in words if word)
    return f"{str(entry.get('time', ''))[11:19]} {text}".strip()


class LogTail:
    """Reads what is appended to a file after it was opened here, and keeps the last warning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._incomplete = b""
        self.last_warning = ""

    def read_new(self) -> str:
        """Reads on to the end of the file; the last warning so far, or an empty string."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        self._offset += len(new)
        *lines, self._incomplete = (self._incomplete + new).split(b"\n")
        for line in lines:
            self.last_warning = warning_in(line.decode(errors="replace")) or self.last_warning
        return self.last_warning
