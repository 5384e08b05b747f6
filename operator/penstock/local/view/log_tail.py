"""The last warning or error of a growing log, which has JSON lines of the driver and of its JVM."""

from __future__ import annotations

import json
from pathlib import Path

# Python's names of the levels, and log4j's.
_LEVELS = {"WARNING", "ERROR", "CRITICAL", "WARN", "FATAL"}

# Spark logs this at each start in these modes; it is harmless.
_HARMLESS = ("ContinuousExecution: Disabling AQE", "MicroBatchExecution: Disabling AQE")


def warning_in(line: str) -> str | None:
    """The time and text of a log line that is a warning or an error; None for any other line."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in _LEVELS:
        return None
    logger = str(entry.get("logger", "")).rpartition(".")[2]
    words = [logger, entry.get("message"), entry.get("reason")]
    words += [entry.get("cause") or entry.get("error") or entry.get("rootCause")]
    text = ": ".join(str(word) for word in words if word)
    if text.startswith(_HARMLESS):
        return None
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
