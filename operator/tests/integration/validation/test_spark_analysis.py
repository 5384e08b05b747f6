"""`penstock validate --spark`: Spark's own messages, without a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
CASES = {
    # Only Java can tell what is right with a comment or a class in it.
    "pattern": (changed(PATTERN, "source.kafka.topicPattern", r"(?x)a # b"), None),
    "no-pattern": (
        changed(PATTERN, "source.kafka.topicPattern", r"\p{NoSuchClass}"),
        "Unknown character property name {NoSuchClass}",
    ),
    "good": (KAFKA_TO_KAFKA, None),
    "headers": (HEADERS, None),
    "no-column": (
        changed(KAFKA_TO_KAFKA, "transform", {"sql": "SELECT no_such(value) AS value FROM source"}),
        "no_such",
    ),
    "no-text": (
        changed(
            KAFKA_TO_KAFKA, "transform", {"sql": "SELECT bit_count(offset) AS value FROM source"}
        ),
        "takes a column value of type STRING OR BINARY, not INT",
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


def test_spark_finds_what_the_text_alone_does_not_show(tmp_path: Path) -> None:
    """One run for all cases; a missing class is a notice, since the image may have it."""
    unknown = changed(RATE_TO_CONSOLE, "source", {"custom": {"format": "com.example.Unknown"}})
    documents = [manifest(name, spec) for name, (spec, _) in CASES.items()]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*documents, manifest("unknown", unknown)]))
    done = subprocess.run(  # a process of its own: pyspark has one JVM a process
        [sys.executable, "-m", "penstock.cli", "validate", "--spark", "--format=json", file],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    found = {finding["stream"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert set(found) == {name for name, (_, message) in CASES.items() if message} | {"unknown"}
    for name, (_, message) in CASES.items():
        if message is not None:
            assert found[name]["severity"] == "error"
            assert message in found[name]["message"]
    assert found["unknown"]["severity"] == "notice"
