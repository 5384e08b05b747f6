"""`penstock validate`: its findings, their formats, and the exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli import main
from testkit.streams.streams import KAFKA_TO_KAFKA, changed, manifest

GOOD = manifest("good", KAFKA_TO_KAFKA)
BAD = manifest("bad", changed(KAFKA_TO_KAFKA, "transform.sql", "SELECT DISTINCT value FROM source"))
SLOW = manifest("slow", changed(KAFKA_TO_KAFKA, "transform", {"python": {"function": "m:f"}}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file for the manifests."""
    return tmp_path / "streams.yaml"


def write(file: Path, *documents: Any) -> str:
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return str(file)


def test_the_last_line_says_what_was_judged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other resources in the file are skipped, and counted."""
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    knative = {**BAD, "apiVersion": "else.dev/v1"}
    assert main(["validate", write(file, other, GOOD, knative)]) == 0
    assert capsys.readouterr() == ("1 stream valid, 2 other documents skipped\n", "")


def test_an_error_names_file_line_and_stream(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line and column of the field."""
    assert main(["validate", write(file, GOOD, BAD)]) == 1
    found, last = capsys.readouterr().out.splitlines()
    line = file.read_text().splitlines().index("    sql: SELECT DISTINCT value FROM source") + 1
    assert found.startswith(f"{file}:{line}:5: error: bad: spec.transform.sql, line 1, column 8: ")
    assert "Deduplicate" in found
    assert last == "1 stream valid, 1 invalid"


def test_a_warning_is_printed_and_the_exit_code_stays_0(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", write(file, SLOW)]) == 0
    out = capsys.readouterr().out
    assert ": warning: slow: " in out
    assert "526 ms" in out


def test_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object: what was judged, and the findings."""
    assert main(["validate", "--format", "json", write(file, GOOD, BAD)]) == 1
    report = json.loads(capsys.readouterr().out)
    (found,) = report.pop("findings")
    assert report == {"valid": 1, "invalid": 1, "unread": 0, "skipped": 0}
    assert found["stream"] == "bad"
    assert found["severity"] == "error"
    assert found["reason"] == "UnsupportedOperation"
    assert main(["validate", "--format", "json", write(file, GOOD)]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_as_github_annotations(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workflow command of one line, with its control characters escaped."""
    bad = manifest("bad", changed(KAFKA_TO_KAFKA, "sink.kafka.topik", "50%\nmore"))
    assert main(["validate", "--format", "github", write(file, bad)]) == 1
    line, _ = capsys.readouterr().out.splitlines()
    at = file.read_text().splitlines().index("      topik: '50%") + 1
    assert line == (
        f"::error file={file},line={at},col=7,title=bad%3A InvalidSpec::"
        "spec.sink.kafka.topik: there is no such field: did you mean topic?"
    )


def test_an_unreadable_file_exits_with_2_and_hides_no_other_finding(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that CI can distinguish a bad stream from a bad path."""
    missing = str(tmp_path / "missing.yaml")
    assert main(["validate", "--format", "json", missing, write(file, BAD)]) == 2
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(each["file"], each["reason"]) for each in found] == [
        (missing, "Unreadable"),
        (str(file), "UnsupportedOperation"),
    ]


def test_wrong_usage_exits_with_2() -> None:
    """The exit code of argparse."""
    with pytest.raises(SystemExit) as ended:
        main(["validate"])
    assert ended.value.code == 2


def test_a_malformed_resource_is_refused(file: Path) -> None:
    """Without a traceback."""
    assert main(["validate", write(file, {**GOOD, "spec": None, "metadata": "x"})]) == 1


def test_spark_option_without_spark_says_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the option, pyspark is not needed."""
    monkeypatch.setitem(sys.modules, "penstock.local.spark_analyzer", None)
    assert main(["validate", "--spark", write(file, GOOD)]) == 2
    assert (
        "install penstock[driver] (in a checkout: pip install '.[driver]')"
        in capsys.readouterr().err
    )
