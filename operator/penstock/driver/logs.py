"""Log lines in JSON on stderr. They contain names and never the contents of records."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

# Py4J logs a traceback for each call into a dead JVM; the driver logs one line instead.
_NOISY = "py4j"
# Created before the import of pyspark, which changes the class of new loggers.
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
    """Sends log lines of level INFO and above to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    handler.addFilter(lambda record: _NOISY not in Path(record.pathname).parts)


def log_event(message: str, level: int = logging.INFO, **facts: object) -> None:
    """Logs one line: the message, and facts as further fields."""
    _LOG.log(level, message, extra={"facts": facts})
