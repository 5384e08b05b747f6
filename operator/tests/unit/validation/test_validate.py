"""`penstock validate`: its findings, their formats, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.api.problem import Problem
from penstock.cli import main
from penstock.validation.file_check import Analyzer, check
from penstock.validation.reading.documents import Document, load
from penstock.validation.reading.yaml_document import compose
from penstock.validation.report import rendered
from penstock.validation.rules import pod_templates
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
    out, err = capsys.readouterr()
    assert (out.splitlines()[-1], err) == ("1 stream valid, 2 other documents skipped", "")


def test_an_error_names_file_line_and_stream(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line and column of the field."""
    assert main(["validate", write(file, GOOD, BAD)]) == 1
    found, _, last = capsys.readouterr().out.splitlines()
    line = file.read_text().splitlines().index("    sql: SELECT DISTINCT value FROM source") + 1
    assert found.startswith(f"{file}:{line}:5: error: bad: spec.transform.sql, line 1, column 8: ")
    assert "Deduplicate" in found
    assert last == "1 stream valid, 1 invalid"


@pytest.mark.proves("ci.md")
def test_one_line_says_what_of_the_sql_is_left_to_spark(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not of a stream without SQL, and not where Spark has judged it."""
    sql = changed(KAFKA_TO_KAFKA, "transform", {"sql": "SELECT valu AS value FROM source"})
    path = write(file, manifest("a", sql), manifest("b", sql), SLOW)
    assert main(["validate", path]) == 0
    *_, scope, last = capsys.readouterr().out.splitlines()
    assert scope == (
        "SQL of 2 streams: operations and the sink's columns are judged; names of columns, fields "
        "and functions, and types, are left to Spark (--spark, or the driver)"
    )
    assert last == "3 streams valid"
    loaded = load(json.dumps(manifest("a", sql)).encode(), "it")
    assert rendered(check(loaded, lambda _: []), "text") == "1 stream valid"
    assert main(["validate", write(file, SLOW)]) == 0
    assert "SQL of" not in capsys.readouterr().out


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
    counts = {"valid": 1, "invalid": 1, "unread": 0, "skipped": 0, "leftToSpark": 2}
    assert report == counts
    assert found["stream"] == "bad"
    assert found["severity"] == "error"
    assert found["reason"] == "UnsupportedOperation"
    assert main(["validate", "--format", "json", write(file, GOOD)]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_as_github_annotations(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workflow command of one line, with its control characters escaped."""
    bad = manifest("bad", changed(KAFKA_TO_KAFKA, "sink.kafka.topik", "50%\nmore"))
    assert main(["validate", "--format", "github", write(file, bad)]) == 1
    line, *_ = capsys.readouterr().out.splitlines()
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
    assert main(["validate"]) == 2


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
        "install penstock-streams[driver] (in a checkout: pip install '.[driver]')"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "ContinousStream"}, "kind: there is no ContinousStream in penstock.dev: write"),
        ({"kind": None}, "kind: this field is required: write ContinuousStream"),
        ({"apiVersion": None}, "apiVersion: this field is required: write penstock.dev/v1alpha1"),
        ({"apiVersion": "penstok.dev/v1alpha1"}, "did you mean penstock.dev/v1alpha1?"),
        ({"apiVersion": "v1alpha1"}, "did you mean penstock.dev/v1alpha1?"),
        ({"apiVersion": None, "kind": None}, "apiVersion: this field is required"),
        ({"apiVersion": "penstock.dev/v1"}, "should be 'penstock.dev/v1alpha1'"),
    ],
    ids=str,
)
def test_a_near_miss_is_an_error(
    changes: dict[str, Any], said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not another resource that is skipped."""
    miss = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    assert main(["validate", write(file, GOOD, miss)]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "~", "a: b", "- a", "hello"])
def test_no_stream_is_no_success(text: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(text)
    assert main(["validate", str(file)]) == 1
    assert "no stream found" in capsys.readouterr().out


def test_a_list_is_unwrapped(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the places of its items."""
    listed = {"apiVersion": "v1", "kind": "List", "items": [GOOD, BAD]}
    assert main(["validate", write(file, listed)]) == 1
    found, _, last = capsys.readouterr().out.splitlines()
    lines = file.read_text().splitlines()
    (line,) = [number for number, each in enumerate(lines, 1) if "SELECT DISTINCT" in each]
    column = lines[line - 1].index("sql:") + 1
    assert found.startswith(f"{file}:{line}:{column}: error: bad: ")
    assert last == "1 stream valid, 1 invalid"


def test_folders_patterns_and_files_are_read_once_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without what is hidden, and with files that are no YAML beside them."""
    for name in ("a.yaml", "b/c.yml", "b/d/e.json", "b/f.txt", ".git/g.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(GOOD))
    (tmp_path / "broken.yaml").write_text("a: [\n")
    pattern = str(tmp_path / "*.yaml")
    assert main(["validate", str(tmp_path), str(tmp_path / "a.yaml"), pattern]) == 1
    found, _, last = capsys.readouterr().out.splitlines()
    assert found.startswith(f"{tmp_path}/broken.yaml:2:1: error: not YAML: ")
    assert last == "3 streams valid, 1 document not read"


def test_standard_input_is_a_file(tmp_path: Path) -> None:
    """`helm template … | penstock validate -`."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "validate", "-"],
        input=yaml.safe_dump_all([GOOD, BAD]), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.startswith("<stdin>:")
    assert done.stdout.endswith("1 stream valid, 1 invalid\n")


def test_as_sarif(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What code scanners need: a rule, a level, a place."""
    assert main(["validate", "--format", "sarif", write(file, BAD, SLOW)]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [each["level"] for each in run["results"]] == ["error", "warning"]
    assert {each["ruleId"] for each in run["results"]} == {
        each["id"] for each in run["tool"]["driver"]["rules"]
    }
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == str(file)
    assert place["region"]["startLine"] > 1


@pytest.mark.parametrize("style", ["|", "|2", ">-"])
def test_a_place_in_a_block_of_sql_is_a_place_in_the_file(style: str, file: Path) -> None:
    """The third line of the text, in its column."""
    file.write_text(f"a: b\ntransform:\n    sql: {style}\n      SELECT\n\n        x\n")
    tree = compose(file.read_text())
    assert tree is not None
    document = Document({}, tree.place, text=file.read_text())
    sql = Problem("X", "x", path=("transform", "sql"))
    assert document.locate(sql) == (3, 5)
    assert document.locate(replace(sql, text_line=3, text_column=3)) == (6, 9)
    assert document.locate(replace(sql, path=("transform", "nothing", 0))) == (2, 1)


def test_a_sink_that_feeds_its_source_is_a_warning(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The query may filter out what it has written."""
    loop = manifest("loop", changed(KAFKA_TO_KAFKA, "sink.kafka.topic", "payments"))
    assert main(["validate", write(file, loop)]) == 0
    assert "warning: loop: spec.sink.kafka.topic: the source reads payments" in (
        capsys.readouterr().out
    )


def test_a_time_after_the_end_of_a_query_that_never_ends_is_a_warning(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no error: a rollback may put the field on a spec with another trigger."""
    endless = changed(KAFKA_TO_KAFKA, "ttlSecondsAfterFinished", 60)
    nightly = changed(endless, "trigger", {"availableNow": {}})
    path = write(file, manifest("endless", endless), manifest("nightly", nightly))
    assert main(["validate", path]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "ttlSeconds" in line]
    assert len(said) == 1
    assert "warning: endless: spec.ttlSecondsAfterFinished has no effect" in said[0]


def test_what_spark_judges_needs_no_notice_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark judges texts and patterns, but no pod templates."""
    monkeypatch.setattr(pod_templates, "_models", lambda: None)
    spec = changed(KAFKA_TO_KAFKA, "driver.podTemplate", {"spec": {}})
    spec = changed(changed(spec, "source.kafka.topics", ...), "source.kafka.topicPattern", "(?x)a")
    sql = "SELECT IDENTIFIER('value') FROM source"
    spec = changed(spec, "transform", {"sql": sql})
    loaded = load(json.dumps(manifest("it", spec)).encode(), "it")

    def not_judged(analyzer: Analyzer | None) -> list[str]:
        found = check(loaded, analyzer).findings
        return sorted(each.message.split(":")[0].split(",")[0] for each in found)

    template = "spec.driver.podTemplate"
    texts = ["spec.source.kafka.topicPattern", "spec.transform.sql"]
    assert not_judged(None) == [template, *texts]
    assert not_judged(lambda _: []) == [template]
    assert len(not_judged(lambda _: [Problem("NotJudged", "no class", "notice")])) == 4


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"driver": {"cores": "two"}}, ["spec.driver.cores", "UnsupportedOperation"]),
        ({"sink.kafka.topc": "b"}, ["spec.sink.kafka.topc", "UnsupportedOperation"]),
        ({"sink": ...}, ["spec.sink", "UnsupportedOperation"]),
        ({"source.kafka.topc": "b"}, ["spec.source.kafka.topc", "UnsupportedOperation"]),
        (
            {"source": {"kafka": {}}, "sink": {}},
            ["spec.sink", "spec.source.kafka", "UnsupportedOperation"],
        ),
        ({"source": {"rte": {}}}, ["spec.source.rte", "UnsupportedOperation"]),
        # What the query may do, or may name, is not known: nothing is said of it.
        ({"trigger": ...}, ["spec.trigger"]),
        ({"trigger": {"microBtch": {}}}, ["spec.trigger.microBtch"]),
        ({"transform.sqll": "SELECT 1"}, ["spec.transform.sqll"]),
        ({"transform": ..., "transfrom": {"sql": "SELECT 1 AS a"}}, ["spec.transfrom"]),
        (
            {"source": {"rte": {}}, "transform.sql": "SELECT nothing AS value FROM source"},
            ["spec.source.rte"],
        ),
        (
            {"source.kafka.topc": "b", "transform.sql": "SELECT headers, value FROM source"},
            ["spec.source.kafka.topc"],
        ),
        (
            {"sink.kafka.topc": "b", "transform.sql": "SELECT key FROM source"},
            ["spec.sink.kafka.topc"],
        ),
        (
            {
                "source.kafka.topc": "b",
                "transform.sql": "SELECT from_json(value, 'a INT') FROM source",
            },
            ["spec.source.kafka.topc", "InvalidSql"],
        ),
    ],
)
def test_the_query_of_an_invalid_spec_is_judged_too(
    changes: dict[str, Any], found: list[str]
) -> None:
    """In the same round, as far as its verdict does not depend on what is wrong."""
    spec = changed(KAFKA_TO_KAFKA, "transform.sql", "SELECT DISTINCT value FROM source")
    for path, value in changes.items():
        spec = changed(spec, path, value)
    findings = check(load(json.dumps(manifest("it", spec)).encode(), "it")).findings
    said = [
        finding.message.split(":")[0] if finding.reason == "InvalidSpec" else finding.reason
        for finding in findings
    ]
    assert sorted(said) == sorted(found)


def test_a_null_is_a_warning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The API server drops it; who writes `microBatch:` probably means `microBatch: {}`."""
    it = manifest("it", changed(KAFKA_TO_KAFKA, "trigger", {"microBatch": None}))
    assert main(["validate", write(file, it)]) == 1
    said = capsys.readouterr().out
    assert "warning: it: spec.trigger.microBatch: null is as good as no field" in said
    assert "error: it: spec.trigger: " in said


def test_without_the_client_of_kubernetes_a_template_is_not_judged(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A notice, in an installation without penstock-streams[operator]."""
    monkeypatch.setattr(pod_templates, "_models", lambda: None)
    template = {"spec": {"nodeSelektor": {"disk": "ssd"}}}
    it = manifest("it", changed(KAFKA_TO_KAFKA, "driver.podTemplate", template))
    assert main(["validate", "--format", "json", write(file, it)]) == 0
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["severity"], found["reason"]) == ("notice", "NotJudged")
