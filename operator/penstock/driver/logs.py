"""Log lines: one line of JSON each, on stderr. They name things and never carry contents."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

# Py4J logs a traceback for each call into a JVM that has died; the driver says it in one line.
_NOISY = "py4j"
# Made before pyspark is imported, which changes the class that loggers are made of.
_LOG = logging.getLogger("penstock.driver")


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            line.update(facts)
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up() -> None:
    """Sends everything of level INFO and above to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    handler.addFilter(lambda record: _NOISY not in Path(record.pathname).parts)


def log_event(message: str, level: int = logging.INFO, **facts: object) -> None:
    """One line: what happened, and the facts a person would grep for."""
    _LOG.log(level, message, extra={"facts": facts})
