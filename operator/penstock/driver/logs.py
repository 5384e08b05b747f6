"""Log lines in JSON on stderr. They contain names and never the contents of records."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from penstock.contract.log_lines import JsonFormatter

# Py4J logs a traceback for each call into a dead JVM; the driver logs one line instead.
_NOISY = "py4j"
# Created before the import of pyspark, which changes the class of new loggers.
_LOG = logging.getLogger("penstock.driver")


def set_up() -> None:
    """Sends log lines of level INFO and above to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    handler.addFilter(lambda record: _NOISY not in Path(record.pathname).parts)


def log_event(message: str, level: int = logging.INFO, **facts: object) -> None:
    """Logs one line: the message, and facts as further fields."""
    _LOG.log(level, message, extra={"facts": facts})
