"""`penstock validate --spark`: Spark's own messages, without a broker."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.streams.streams import KAFKA_TO_KAFKA, RATE_TO_CONSOLE, changed, manifest

pytestmark = pytest.mark.timeout(300)

HEADERS = changed(
    changed(KAFKA_TO_KAFKA, "source.kafka.includeHeaders", True),
    "transform",
    {"sql": "SELECT headers[0].value AS value FROM source"},
)
PATTERN = changed(KAFKA_TO_KAFKA, "source.kafka.topics", ...)
FIELD = "from_json(CAST(value AS STRING), 'a STRING').b"
CASES = {
    # Only Java can tell what is right with a comment or a class in it.
    "pattern": (changed(PATTERN, "source.kafka.topicPattern", r"(?x)a # b"), None),
    "no-pattern": (
        changed(PATTERN, "source.kafka.topicPattern", r"\p{NoSuchClass}"),
        "Unknown character property name {NoSuchClass}",
    ),
    "good": (KAFKA_TO_KAFKA, None),
    "headers": (HEADERS, None),
    "no-function": (
        changed(KAFKA_TO_KAFKA, "transform", {"sql": "SELECT no_such(value) AS value FROM source"}),
        "no_such",
    ),
    "no-column": (
        changed(KAFKA_TO_KAFKA, "transform", {"sql": "SELECT valu AS value FROM source"}),
        "`valu` cannot be resolved",
    ),
    "no-field": (
        changed(KAFKA_TO_KAFKA, "transform", {"sql": f"SELECT {FIELD} AS value FROM source"}),
        "No such struct field `b`",
    ),
    "no-text": (
        changed(
            KAFKA_TO_KAFKA, "transform", {"sql": "SELECT bit_count(offset) AS value FROM source"}
        ),
        "takes a column value of type STRING or BINARY, not INT",
    ),
    "no-sql": (changed(RATE_TO_CONSOLE, "transform", {"sql": "SELECT ((("}), "PARSE_SYNTAX_ERROR"),
    "custom": (
        changed(
            changed(
                RATE_TO_CONSOLE, "source", {"custom": {"format": "x", "schema": "line STRING"}}
            ),
            "transform",
            {"sql": "SELECT upper(line) AS value FROM source"},
        ),
        None,
    ),
}


def findings(file: Path) -> list[dict[str, Any]]:
    """What it finds in a file in which something is wrong."""
    done = subprocess.run(  # a process of its own: pyspark has one JVM a process
        [sys.executable, "-m", "penstock.cli", "validate", "--spark", "--format=json", file],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


# Spark knows the place in the first.
PLACED = """
transform:
  sql: |
    SELECT value,
      1 + CAST(array(value) AS INT) AS part
    FROM source
---
transform:
  functions: [{name: f, parameters: [], returns: INT, expression: "array(1).a"}]
  sql: SELECT f() AS value FROM source
---
transform:
  python:
    function: f:f
    inline: "def f(source): return source.select('no_such')"
"""


def test_what_spark_says_has_its_place(tmp_path: Path) -> None:
    """In the text of the query where Spark knows it, and else at the field."""
    file = tmp_path / "streams.yaml"
    head = yaml.safe_dump(manifest("numbers", RATE_TO_CONSOLE))
    bodies = [textwrap.indent(each, "  ") for each in PLACED.strip().split("---\n")]
    file.write_text("---\n".join(head + body + "\n" for body in bodies))
    lines = file.read_text().splitlines()
    found = [(lines[each["line"] - 1].strip(), each["column"]) for each in findings(file)]
    (text, column), *others = found
    assert (
        lines[lines.index(f"        {text}")][column - 1 :] == "CAST(array(value) AS INT) AS part"
    )
    assert [each[0] for each in others] == ["transform:", "python:"]


@pytest.mark.proves("ci.md")
def test_spark_finds_what_the_text_alone_does_not_show(tmp_path: Path) -> None:
    """One run for all cases; a missing class is a notice, since the image may have it."""
    unknown = changed(RATE_TO_CONSOLE, "source", {"custom": {"format": "com.example.Unknown"}})
    documents = [manifest(name, spec) for name, (spec, _) in CASES.items()]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*documents, manifest("unknown", unknown)]))
    found = {finding["stream"]: finding for finding in findings(file)}
    assert set(found) == {name for name, (_, message) in CASES.items() if message} | {"unknown"}
    for name, (_, message) in CASES.items():
        if message is not None:
            assert found[name]["severity"] == "error"
            assert message in found[name]["message"]
    assert found["unknown"]["severity"] == "notice"
