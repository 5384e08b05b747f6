"""Log lines in JSON on stderr. They contain names and never the contents of records."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

from penstock.contract.log_lines import JsonFormatter
from penstock.driver import secret_values

_NOISY = "py4j"
# Created before the import of pyspark, which changes the class of new loggers.
_LOG = logging.getLogger("penstock.driver")


class _Formatter(JsonFormatter):
    def format(self, record: logging.LogRecord) -> str:
        return secret_values.redact(super().format(record))


def set_up(stream: TextIO | None = None) -> None:
    """Sends log lines of level INFO and above to a stream; to stderr without one."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    handler.addFilter(_is_not_noise)


def leave_out_noise() -> None:
    """Leaves out what Py4J logs with the root logger, also where `set_up` was not called.

    It logs a traceback for each call into a JVM that has ended, even if it is a finalizer's.
    """
    logging.getLogger().addFilter(_is_not_noise)


def _is_not_noise(record: logging.LogRecord) -> bool:
    return _NOISY not in Path(record.pathname).parts


def log_event(message: str, level: int = logging.INFO, **facts: object) -> None:
    """Logs one line: the message, and facts as further fields."""
    _LOG.log(level, message, extra={"facts": facts})
