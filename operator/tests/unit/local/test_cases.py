"""`penstock test` without Spark: what a file of cases says, and what is compared how."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.file_formats import Entry
from penstock.local.cases.case_file import Case, CaseFile, OutputRecord, is_case_file, read_cases
from penstock.local.cases.case_run import Outcome
from penstock.local.cases.checkpoint_edits import advance_watermark, undo_last_batch
from penstock.local.cases.comparison import Expected, KafkaRecord, Match, compare, json_of
from penstock.local.cases.saved_case import case_of
from penstock.local.cases.stream_of_case import (
    ROWS,
    NotTestable,
    modes_to_run,
    of_batches,
    prepare,
    topics_of,
)
from penstock.local.cases.verdicts import Verdict, as_junit, as_text, summary
from testkit.paths import CHECKOUT
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH, kafka_sink, kafka_source, stream

pytestmark = pytest.mark.proves("how-to/test-a-stream.md#what-a-case-says")

HEAD = "stream: ../flags.yaml\ncases:\n"
ONE = {"name": "one", "in": [{"value": "a"}], "out": []}


def read(text: str) -> CaseFile | str:
    """The file, or what is wrong with it, a line each."""
    found = read_cases(Path("t.yaml"), text.encode())
    if isinstance(found, CaseFile):
        return found
    return "\n".join(f"{it.line}:{it.column}: {it.message}" for it in found)


def case(**fields: Any) -> Case:
    file = read(yaml.safe_dump({"stream": "s.yaml", "cases": [{**ONE, **fields}]}))
    assert isinstance(file, CaseFile), file
    return file.cases.cases[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "should be an object with stream and cases"),
        ("a: [", "not YAML"),
        ("stream: s\ncases: []", "cases: write at least one"),
        ("cases:\n- {name: a, out: []}", "1:1: stream: this field is required"),
        (f"{HEAD}- {{name: a, in: []}}", "expects nothing: write out, deadLetters, droppedLate"),
        (f"{HEAD}- {{name: a, out: [{{}}]}}", "an empty record says nothing"),
        (f"{HEAD}- name: a\n  out:\n  - vale: 1", "5:5: cases[0].out[0].vale: there is no such "
         "field: did you mean value?"),
        (f"{HEAD}- {{name: a, in: [{{value: 1, valueHex: '00'}}], out: []}}",
         "value and valueHex cannot be set together"),
        (f"{HEAD}- {{name: a, in: [{{valueHex: '0'}}], out: []}}", "bytes in hexadecimal"),
        (f"{HEAD}- {{name: a, in: [{{lines: f, value: 1}}], out: []}}", "remove value"),
        (f"{HEAD}- {{name: a, in: [{{value: 1, time: noon}}], out: []}}", "a time with its zone"),
        (f"{HEAD}- {{name: a, modes: [fast], out: []}}", "should be all, or a list of continuous"),
        (f"{HEAD}- {{name: a, out: [], steps: [{{out: []}}]}}", "move out into steps"),
        (f"{HEAD}- {{name: a, steps: [{{kill: true}}, {{out: []}}]}}", "with kill needs out"),
        (f"{HEAD}- {{name: a, out: [], kill: true}}", "kill needs a next step"),
        (f"{HEAD}- {{name: a, steps: [{{fails: {{reason: A}}}}, {{out: []}}]}}", "no next step"),
        (f"{HEAD}- {{name: a, out: []}}\n- {{name: a, out: []}}", "two cases have the name 'a'"),
        (f"{HEAD}- {{name: a, in: [{{valueHex: 00}}], out: []}}", "write it in quotes"),
        (f"{HEAD}- {{name: a, out: [{{headers: {{h: 1}}}}]}}", "write it in quotes"),
        (f"{HEAD}- {{name: a, out: []}}\n---\na: b", "a second document: write a file for each"),
        ("apiVersion: a\nkind: b", "is a manifest: name the file with its cases"),
        (f"{HEAD}- {{name: a, modes: [], out: []}}", "should be all, or a list of continuous"),
        (f"{HEAD}- {{name: a, out: }}", "out is null: remove it, or write a value"),
        (f"{HEAD}- {{name: a, out: [{{headers: {{}}}}]}}", "at least 1"),
        (f"{HEAD}- {{name: a, in: [{{topic: 'a b'}}], out: []}}", "takes letters, digits"),
        (f"{HEAD}- {{name: a, in: [{{value: 1, time: '1700000000'}}], out: []}}", "with its zone"),
        (f"{HEAD}- {{name: a, in: [{{time: '1960-01-01T00:00:00Z'}}], out: []}}", "its zone"),
        (f"{HEAD}- {{name: a, steps: [{{out: [], kill: true}}, {{out: [], watermark: "
         "'2026-01-01T00:00:00Z'}]}", "watermark cannot stand after a kill"),
        (f"{HEAD}- {{name: a, out: [], timeoutSeconds: 0}}", "greater than or equal to 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(text: str, message: str) -> None:
    found = read(text)
    assert isinstance(found, str)
    assert message in found


def test_files_of_cases_are_known_among_others() -> None:
    assert is_case_file(f"{HEAD}- {{name: a}}".encode())
    for broken in (b"steam: s\ncases: []", b"stream: s\ncases:\n- [", b"stream: s"):
        assert is_case_file(broken)
    for other in (b"apiVersion: v1\nkind: ConfigMap", b"- a", b"a: [", b"\xff", b""):
        assert not is_case_file(other)


def test_a_letter_is_no_boolean() -> None:
    """kubectl reads the key `n` as false, and the value of JSON has such keys."""
    file = read(f"{HEAD}- {{name: a, in: [{{value: {{n: 1, y: no, on: true}}}}], out: []}}")
    assert isinstance(file, CaseFile)
    assert file.cases.cases[0].in_[0].value == {"n": 1, "y": "no", "on": True}


def test_a_number_keeps_its_digits() -> None:
    file = read(f"{HEAD}- {{name: a, in: [{{value: {{a: 1.10, b: 1e3}}}}], out: []}}")
    assert isinstance(file, CaseFile)
    value = file.cases.cases[0].in_[0].value
    assert json_of(value) == '{"a": 1.10, "b": 1E+3}'
    assert json.loads(json_of({"a": "\0", "b": Decimal("0.10")})) == {"a": "\0", "b": 0.1}


def record(value: bytes | None, key: bytes | None = None, offset: int = 0) -> KafkaRecord:
    return KafkaRecord("out", 0, offset, key, value, {"h": b"1"})


def expected(*records: dict[str, Any]) -> list[Expected]:
    parsed = [OutputRecord.model_validate(it) for it in records]
    return [Expected(f"out[{n}]", it) for n, it in enumerate(parsed)]


@pytest.mark.parametrize(
    ("wanted", "came", "difference"),
    [
        ({"value": {"a": 1, "b": None}}, b'{ "a": 1.0 }', None),
        ({"value": {"a": Decimal("1.1234567890123456712")}}, b'{"a": 1.1234567890123456712}', None),
        ({"value": {"a": Decimal("1.1234567890123456712")}}, b'{"a": 1.1234567890123456700}',
         "value.a: expected 1.1234567890123456712, came 1.1234567890123456700"),
        ({"value": {"a": Decimal("1.5")}}, b'{"a": 1.50}', None),
        ({"value": {"a": 1}}, b'{"a": 0.50}', "value.a: expected 1, came 0.50"),
        ({"value": {"a": "0.5"}}, b'{"a": 0.5}', 'value.a: expected "0.5", came 0.5'),
        ({"value": {"a": 2}}, b'{"a": 1, "a": 2}', 'which has a twice'),
        ({"value": {"a": 1}}, b'{"a": true}', "value.a: expected 1, came true"),
        ({"value": {"a": 1}}, b'{"a": "1"}', 'value.a: expected 1, came "1"'),
        ({"value": {"a": [1, 2]}}, b'{"a": [2, 1]}', "value.a[0]: expected 1, came 2"),
        ({"value": {"a": [1]}}, b'{"a": [1, 2]}', "value.a: expected [1], came [1, 2]"),
        ({"value": {"a": 1}}, b'{"a": 1, "b": 2}', "value.b: came 2, and nobody expected it"),
        ({"value": {"a": 1}}, b"{}", "value.a: expected 1, did not come"),
        ({"value": {"a": {"b": 1}}}, b'{"a": {"b": 2}}', "value.a.b: expected 1, came 2"),
        ({"value": {"a": 1}}, b"a", "value: expected {\"a\": 1}, came a, which is not JSON"),
        ({"value": {"a": 1}}, None, "value: expected {\"a\": 1}, came null"),
        ({"value": 7}, b"7", None),
        ({"value": "7"}, b"7", None),
        ({"value": "7 "}, b"7", 'value: expected "7 ", came "7"'),
        ({"value": None}, None, None),
        ({"value": None}, b"", 'value: expected null, came ""'),
        ({"valueHex": "00ff"}, b"\x00\xff", None),
        ({"valueHex": "00ff"}, b"\x00\xfe", "value: expected 0x00ff, came 0x00fe"),
        ({"valueIncludes": {"a": 1}}, b'{"a": 1, "b": 2}', None),
        ({"valueIncludes": {"a": 1}}, b'{"b": 2}', "value.a: expected 1, did not come"),
        ({"valueIncludes": {"a": {"b": 1}}}, b'{"a": {"b": 1, "c": 2}}', "value.a.c: came 2"),
        ({"headers": {"h": "1"}}, b"", None),
        ({"headers": {"h": "2"}}, b"", 'headers.h: expected "2", came "1"'),
        ({"headers": {"i": "2"}}, b"", "headers.i: did not come"),
        ({"topic": "other"}, b"", "topic: expected other, came out"),
        ({"partition": 1}, b"", "partition: expected 1, came 0"),
        ({"key": "k"}, b"", 'key: expected "k", came null'),
    ],
)  # fmt: skip
def test_a_record_is_compared_by_what_the_case_says(
    wanted: dict[str, Any], came: bytes | None, difference: str | None
) -> None:
    differences = compare(expected(wanted), [record(came)]).differences
    assert bool(differences) == (difference is not None)
    assert not difference or difference in differences[0]


def test_each_record_is_one_expected_record() -> None:
    """A loose one must not take the record of a strict one."""
    loose, strict = {"valueIncludes": {"a": 1}}, {"value": {"a": 1, "b": 2}}
    came = [record(b'{"a": 1, "b": 2}'), record(b'{"a": 1, "b": 3}')]
    for order in ((loose, strict), (strict, loose)):
        assert compare(expected(*order), came).differences == ()
    twice = compare(expected({"value": "a"}), [record(b"a"), record(b"a", offset=1)])
    assert twice.differences == ("came, and nobody expected it: out/0@1 value a",)
    missing = compare(expected({"value": "a"}, {"value": "a"}), [record(b"a")])
    assert missing.differences == ('out[1]: did not come: value "a"',)


def test_the_nearest_record_is_shown_beside_one_that_did_not_come() -> None:
    wanted = expected({"key": "k", "value": {"a": 1, "b": 2, "c": 3}})
    came = [record(b'{"x": 1}'), record(b'{"a": 1, "b": 2, "c": 4}', b"k")]
    assert compare(wanted, came).differences == (
        "out[0]: value.c: expected 3, came 4\n  "
        'came: out/0@0 key k, value {"a": 1, "b": 2, "c": 4}',
        'came, and nobody expected it: out/0@0 value {"x": 1}',
    )


def test_copies_may_come_only_after_a_kill() -> None:
    """Each record of the batch that runs again once more, and no other."""
    now, killed = expected({"key": "b"}), [record(b"x", b"a")]
    came = [record(b"x", b"a"), record(b"y", b"b", 1)]
    match = compare(now, came, may_come_again=killed)
    assert (match.differences, match.copies) == ((), 1)
    assert len(compare(now, came).differences) == 1
    for other in (record(b"x", b"a", 2), record(b"y", b"b", 2), record(b"z", b"a", 2)):
        (difference,) = compare(now, [*came, other], may_come_again=killed).differences
        assert difference == f"came, and nobody expected it: {other}"


def test_a_query_that_was_started_again_may_write_again() -> None:
    """At least once; what it writes is as before."""
    wanted, came = expected({"value": "a"}), [record(b"a"), record(b"a", offset=1)]
    assert compare(wanted, came, repeats=True) == Match((), 1)
    assert len(compare(wanted, [*came, record(b"b", offset=2)], repeats=True).differences) == 1


def test_the_order_counts_by_key_if_the_case_says_so() -> None:
    wanted = expected({"key": "k", "value": "1"}, {"key": "k", "value": "2"}, {"key": "l"})
    came = [record(b"", b"l"), record(b"2", b"k", 1), record(b"1", b"k", 2)]
    assert compare(wanted, came).differences == ()
    late = compare(wanted, came, by_key=True).differences
    assert late == ("out[1]: came before out[0], which has the same key",)
    alike = expected({"key": "k"}, {"key": "k"}, {"key": "k"})
    assert not compare(alike, [record(b"", b"k", n) for n in range(3)], by_key=True).differences
    without = [record(b"2", offset=0), record(b"1", offset=1)]
    assert not compare(expected({"value": "1"}, {"value": "2"}), without, by_key=True).differences


SPEC = stream(kafka_source(topics=["a", "b"]), kafka_sink(topic="out"), trigger=CONTINUOUS)


def test_a_case_has_its_topics() -> None:
    """One partition each, or as many as it names."""
    run = prepare(SPEC, "continuous", "localhost:1", {})
    assert topics_of(run, [case()]) == {"a": 1, "b": 1, "out": 1}
    named = case(**{"in": [{"partition": 3}, {"topic": "b", "partition": 1}]})
    assert topics_of(run, [named, case()]) == {"a": 4, "b": 2, "out": 1}
    letters = kafka_source(topics=["a"], deadLetters={"topic": "bad"})
    other = prepare(stream(letters, kafka_sink(topic="out"), trigger=CONTINUOUS), "continuous",
                    "localhost:1", {})  # fmt: skip
    bad = case(deadLetters=[{"partition": 2, "value": "x"}])
    assert topics_of(other, [bad]) == {"a": 1, "out": 1, "bad": 3}
    pattern = stream(
        kafka_source(topicPattern="a.*", topics=None), kafka_sink(topic="out"), trigger=CONTINUOUS
    )
    by_pattern = prepare(pattern, "continuous", "localhost:1", {})
    with pytest.raises(NotTestable, match="write topic in each record"):
        topics_of(by_pattern, [case()])


def test_a_record_goes_to_a_partition_that_is_read() -> None:
    source = kafka_source(assign={"in": [3, 1]}, topics=None)
    assigned = stream(source, kafka_sink(), trigger=CONTINUOUS)
    run = prepare(assigned, "continuous", "localhost:1", {})
    assert (run.default_topic, run.default_partition("in")) == ("in", 1)


def test_the_stream_runs_as_it_is_on_another_broker() -> None:
    run = prepare(SPEC, "continuous", "localhost:1", {})
    source, sink = run.stream.spec.source.kafka, run.stream.spec.sink.kafka
    assert source is not None
    assert sink is not None
    assert source.starting_offsets == "earliest"
    assert (source.bootstrap_servers, sink.bootstrap_servers) == ("localhost:1", "localhost:1")
    assert (run.default_topic, run.sink_topic, run.rows_as_json) == ("a", "out", False)
    assert of_batches(run.stream) == run.stream
    assert of_batches(run.stream, always=True).spec.trigger.available_now is not None
    to_console = stream(kafka_source(), {"console": {}}, trigger=MICRO_BATCH)
    rows = prepare(to_console, "microBatch", "localhost:1", {})
    assert (rows.sink_topic, rows.rows_as_json) == (ROWS, True)


def test_all_modes_are_those_that_the_query_can_have() -> None:
    counts = {"sql": "SELECT CAST(count(*) AS STRING) AS value FROM source GROUP BY key"}
    counting = stream(
        kafka_source(), kafka_sink(), trigger=MICRO_BATCH, transform=counts, outputMode="update"
    )
    every = case(modes="all")
    assert modes_to_run(counting.spec, every) == ["microBatch", "realTime"]
    assert modes_to_run(SPEC.spec, every) == ["continuous", "microBatch", "realTime"]
    assert modes_to_run(SPEC.spec, case()) == ["continuous"]
    one_pod = stream(
        kafka_source(), kafka_sink(), trigger=MICRO_BATCH, executor={"mode": "InDriver"}
    )
    assert modes_to_run(one_pod.spec, every) == ["microBatch", "continuous", "realTime"]
    with pytest.raises(NotTestable, match="continuous: "):
        prepare(counting, "continuous", "localhost:1", {})
    with pytest.raises(NotTestable, match="reads no topic"):
        prepare(stream({"rate": {}}, kafka_sink(), trigger=MICRO_BATCH), "microBatch", "k:1", {})


def test_paths_of_the_query_are_replaced() -> None:
    example = ContinuousStream.from_yaml((CHECKOUT / "examples/join-table.yaml").read_text())
    run = prepare(example, "microBatch", "localhost:1", {"/etc/shops": "/here"})
    assert "text.`/here/shops.jsonl`" in (run.stream.spec.transform.sql or "")
    with pytest.raises(NotTestable, match="paths: /etc/shop is neither"):
        prepare(example, "microBatch", "localhost:1", {"/etc/shop": "/here"})
    java = ContinuousStream.from_yaml((CHECKOUT / "examples/java-transform.yaml").read_text())
    run = prepare(java, "continuous", "localhost:1", {"/opt/jars": "/here"})
    assert run.stream.spec.dependencies.jars == ["local:///here/bookings.jar"]


def logs(folder: Path, *batches: tuple[int, int, int | None]) -> Path:
    """A checkpoint with batches: where each ends, its watermark, and that of its commit."""
    for log in ("offsets", "commits"):
        (folder / log).mkdir()
    for number, (end, watermark, following) in enumerate(batches):
        metadata = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 1, "conf": {}})
        entry = f'v1\n{metadata}\n{{"in":{{"0":{end}}}}}'
        (folder / "offsets" / str(number)).write_text(entry)
        if following is not None:
            commit = f'v1\n{{"nextBatchWatermarkMs":{following}}}'
            (folder / "commits" / str(number)).write_text(commit)
    return folder


def numbers(folder: Path) -> tuple[list[str], list[str]]:
    """The files of both logs."""
    offsets, commits = (sorted(it.name for it in (folder / log).iterdir())
                        for log in ("offsets", "commits"))  # fmt: skip
    return offsets, commits


@pytest.mark.proves("how-to/test-a-stream.md#event-time-restarts-and-kills")
def test_event_time_goes_on_by_a_batch_without_records(tmp_path: Path) -> None:
    folder = logs(tmp_path, (3, 0, 5_000))
    assert advance_watermark(folder, 4_000) is not None  # the commit is further
    assert advance_watermark(folder, 9_000) is None
    planned = Entry.parse((folder / "offsets" / "1").read_bytes())
    assert planned is not None
    assert planned.kafka == ({"in": {0: 3}},)
    assert json.loads(planned.metadata)["batchWatermarkMs"] == 9_000
    assert numbers(folder) == (["0", "1"], ["0"])
    (tmp_path / "new").mkdir()
    assert "nothing has been read before" in str(advance_watermark(tmp_path / "new", 1))


@pytest.mark.proves("how-to/test-a-stream.md#event-time-restarts-and-kills")
def test_a_kill_loses_the_commit_of_the_last_batch_with_records(tmp_path: Path) -> None:
    folder = logs(tmp_path, (3, 0, 0), (7, 0, 5), (7, 5, 5))
    assert not undo_last_batch(folder, before=1)  # in batch 2 there is none
    assert undo_last_batch(folder, before=0)
    assert numbers(folder) == (["0", "1"], ["0"])
    assert undo_last_batch(folder, before=-1)
    assert numbers(folder) == (["0"], [])
    (tmp_path / "idle").mkdir()
    assert not undo_last_batch(logs(tmp_path / "idle", (0, 0, 0)), before=-1)


def test_verdicts_for_people_and_programs() -> None:
    failed = Outcome(("out[0]: value: \x00", "two\n  lines"), (), 1.5)
    verdicts = [Verdict("t.yaml", 3, "a", "realTime", failed)]
    verdicts.append(Verdict("t.yaml", 9, "b", "realTime", Outcome(notes=("2 came again",))))
    assert as_text(verdicts[0]) == (
        "FAIL t.yaml:3: a [realTime] 1.5 s\n       out[0]: value: \x00\n       two\n         lines"
    )
    assert as_text(verdicts[1]).endswith("0.0 s\n       2 came again")
    assert summary(verdicts, 3.0) == "1 passed, 1 failed in 3 s"
    (suite,) = ElementTree.fromstring(as_junit(verdicts))
    assert suite.attrib["failures"] == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.attrib["message"] == "out[0]: value: ?"


@pytest.mark.proves("how-to/test-a-stream.md#from-a-failure-to-a-case")
def test_a_saved_record_is_a_case() -> None:
    def saved(it: KafkaRecord, **result: Any) -> CaseFile:
        what: dict[str, Any] = {"rows": [], "reason": None, "names_topic": False, **result}
        text = case_of(it, 1_700_000_000_123, Path("deploy/s.yaml"), Path("tests/t.yaml"), **what)
        found = read(text)
        assert isinstance(found, CaseFile), found
        return found

    rows = [{"key": b"k", "value": bytearray(b'{"a": 1}'), "topic": None}, {"value": None}]
    file = saved(record(b'{"a" : 1}', b"\xff"), rows=rows)
    assert file.cases.stream == "../deploy/s.yaml"
    (of_record,) = file.cases.cases
    (sent,) = of_record.in_
    assert (sent.key_hex, sent.value, sent.time) == ("ff", '{"a" : 1}', "2023-11-14T22:13:20.123Z")
    assert sent.headers == {"h": "1"}
    assert of_record.out is not None
    assert [(it.key, it.value) for it in of_record.out] == [("k", {"a": 1}), (None, None)]
    assert saved(record(b"08")).cases.cases[0].in_[0].value == "08"
    failing = saved(record(b"x"), reason="CastInvalidInput", names_topic=True).cases.cases[0]
    assert failing.fails is not None
    assert (failing.fails.reason, failing.in_[0].topic) == ("CastInvalidInput", "out")
