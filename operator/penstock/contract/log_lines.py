"""Log lines as JSON objects, one a line: the same fields from operator, driver and their JVMs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_OWN = "penstock"


class JsonFormatter(logging.Formatter):
    """Formats a record with its level, message, the facts in `extra`, and the trace of an error.

    Only the lines of libraries name their logger.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if record.name.partition(".")[0] != _OWN:
            line["logger"] = record.name
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            line.update(facts)
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
