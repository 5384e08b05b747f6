"""Log lines are JSON, and tell Penstock's own from a library's."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from penstock.contract.log_lines import JsonFormatter


def formatted(name: str, **fields: Any) -> dict[str, Any]:
    record = logging.LogRecord(name, logging.WARNING, "a.py", 1, "lost %s", ("it",), None)
    record.__dict__.update(fields)
    line: dict[str, Any] = json.loads(JsonFormatter().format(record))
    return line


@pytest.mark.parametrize(
    ("logger", "named"),
    [("penstock.driver", False), ("penstock", False), ("kopf.activities", True)],
)
def test_only_a_librarys_line_names_its_logger(logger: str, named: bool) -> None:
    line = formatted(logger)
    assert (line["level"], line["message"]) == ("WARNING", "lost it")
    assert ("logger" in line) is named


def test_facts_are_fields_of_the_line() -> None:
    assert formatted("penstock.driver", facts={"step": "discover"})["step"] == "discover"
