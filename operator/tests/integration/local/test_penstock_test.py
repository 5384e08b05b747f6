"""`penstock test` as a user runs it: with real Spark and Kafka, and by what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from testkit.driver.class_archive import command_environment
from testkit.kafka.jars import maven_jars
from testkit.paths import CHECKOUT
from testkit.streams.examples import FOLDER, compiled
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

pytestmark = pytest.mark.proves("how-to/test-a-stream.md")

COUNT = {
    "sql": "SELECT key, CAST(count(*) AS STRING) AS value "
    "FROM (SELECT CAST(key AS STRING) AS key FROM source) GROUP BY key"
}
PARSED = {
    "sql": "SELECT key, CAST(CAST(CAST(value AS STRING) AS INT) + 1 AS STRING) AS value FROM source"
}

TIMERS = """
import pandas as pd
from pyspark.sql.functions import col
from pyspark.sql.streaming.state import GroupStateTimeout as Timeout


def of_key(key, frames, state):
    count = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
    state.update((count,))
    state.setTimeoutDuration(3_600_000)
    yield pd.DataFrame({"key": [key[0]], "n": [count]})


def count(source):
    return (
        source.select(col("key").cast("string"))
        .groupBy("key")
        .applyInPandasWithState(
            of_key, "key STRING, n LONG", "n LONG", "update", Timeout.ProcessingTimeTimeout
        )
    )
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of `penstock test`, and what it says."""
    ended = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "test", *arguments],
        cwd=folder, env=command_environment(), capture_output=True, text=True,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


def write(folder: Path, name: str, cases: list[dict[str, Any]], **spec: Any) -> None:
    """A manifest and its cases."""
    sink = spec.pop("sink", kafka_sink(topic="out"))
    source = spec.pop("source", kafka_source(topics=["in"]))
    flow = stream(source, sink, **spec)
    (folder / f"{name}.yaml").write_text(flow.to_yaml())
    content = {"stream": f"{name}.yaml", "cases": cases}
    (folder / f"{name}-cases.yaml").write_text(yaml.safe_dump(content))


def killed(first: list[str], then: list[str]) -> dict[str, Any]:
    """A case of two steps with a record each, in every mode, and a kill in between."""
    steps = [
        {"in": [{"key": "a", "value": first[0]}], "out": [{"key": "a", "value": first[1]}]},
        {"in": [{"key": "a", "value": then[0]}], "out": [{"key": "a", "value": then[1]}]},
    ]
    return {"name": "killed", "modes": "all", "steps": [{**steps[0], "kill": True}, steps[1]]}


@pytest.mark.timeout(900)
def test_each_mode_through_a_kill_and_what_is_said_of_a_difference(tmp_path: Path) -> None:
    once = kafka_sink(topic="out", delivery="ExactlyOnce")
    counts: dict[str, Any] = {"transform": COUNT, "outputMode": "update"}
    write(tmp_path, "copy", [killed(["1", "1"], ["2", "2"])], sink=once, trigger=CONTINUOUS)
    no_mode = {"name": "no such mode", "modes": ["continuous"], "in": [], "out": []}
    write(tmp_path, "count", [killed(["x", "1"], ["x", "2"]), no_mode], trigger=REAL_TIME, **counts)
    write(tmp_path, "once", [killed(["x", "1"], ["x", "2"])], sink=once, trigger=MICRO_BATCH,
          **counts)  # fmt: skip
    cases: list[dict[str, Any]] = [
        {"name": "differs", "in": [{"value": "1"}, {"value": "5"}],
         "out": [{"value": "3"}, {"value": "6"}]},
        {"name": "fails", "in": [{"value": "x"}], "fails": {"reason": "CastInvalidInput"}},
        {"name": "does not fail", "in": [{"value": "1"}], "fails": {"reason": "CastInvalidInput"}},
        {"name": "fails and should not", "in": [{"value": "x"}], "out": []},
    ]  # fmt: skip
    write(tmp_path, "parsed", cases, transform=PARSED, trigger=MICRO_BATCH)
    write(tmp_path, "letters", [
        {"name": "left out", "in": [{"value": "x"}, {"value": "1"}], "out": [{"value": "2"}],
         "deadLetters": [{"value": "x", "reason": "CastInvalidInput"}]},
        {"name": "left out unseen", "in": [{"value": "x"}], "out": []},
    ], source=kafka_source(topics=["in"], deadLetters={"topic": "bad"}), transform=PARSED,
          trigger=CONTINUOUS)  # fmt: skip
    write(tmp_path, "rows", [
        {"name": "columns", "in": [{"key": "a", "value": "b"}],
         "out": [{"value": {"k": "a", "n": 1}}]},
    ], sink={"console": {}}, trigger=MICRO_BATCH,
          transform={"sql": "SELECT CAST(key AS STRING) AS k, 1 AS n FROM source"})  # fmt: skip
    to_a: dict[str, Any] = {"topic": "to-a", "value": "1"}
    write(tmp_path, "routed", [
        {"name": "known", "in": [{"key": "a", "value": "1"}], "out": [to_a]},
        {"name": "unknown", "in": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
         "out": [to_a]},
    ], sink={"kafka": {"bootstrapServers": "k:9092"}}, trigger=MICRO_BATCH,
        transform={
        "sql": "SELECT concat('to-', CAST(key AS STRING)) AS topic, value FROM source"
    })  # fmt: skip
    write(tmp_path, "timers", [
        {"name": "are not waited for", "in": [{"key": "a"}, {"key": "a"}, {"key": "b"}],
         "out": [{"value": {"key": "a", "n": 2}}, {"value": {"key": "b", "n": 1}}]},
    ], sink={"console": {}}, trigger=MICRO_BATCH, outputMode="update",
          transform={"python": {"function": "timers:count", "inline": TIMERS}})  # fmt: skip
    code, said = run(tmp_path, ".", "--junit", "results.xml")
    assert code == 1, said
    verdicts = re.findall(r"^(ok  |FAIL) (\S+)-cases.yaml:\d+: (.*) \[(\w+)\]", said, re.M)
    assert [" ".join(it).replace("  ", "") for it in verdicts] == [
        "ok copy killed continuous",
        "ok copy killed microBatch",
        "ok copy killed realTime",
        "ok count killed realTime",
        "ok count killed microBatch",
        "FAIL count no such mode continuous",
        "ok letters left out continuous",
        "FAIL letters left out unseen continuous",
        "ok once killed microBatch",
        "FAIL parsed differs microBatch",
        "ok parsed fails microBatch",
        "FAIL parsed does not fail microBatch",
        "FAIL parsed fails and should not microBatch",
        "ok routed known microBatch",
        "FAIL routed unknown microBatch",
        "ok rows columns microBatch",
        "ok timers are not waited for microBatch",
    ]
    for words in (
        'out[0]: value: expected "3", came "2"\n         came: out/0@0 value 2',
        "fails: expected CastInvalidInput, nothing failed",
        "the stream failed: CastInvalidInput: ",
        "a dead letter, and nobody expected it: bad/0@0 value x (CastInvalidInput)",
        "continuous: spec.transform.sql",
        "came, and nobody expected it: to-b/0@0 value 2",
        "11 passed, 6 failed in ",
    ):
        assert words in said
    assert said.count("1 came again after the kill") == 2  # at least once: count, in both modes
    suites = ElementTree.parse(tmp_path / "results.xml").getroot()
    assert sum(int(suite.attrib["failures"]) for suite in suites) == 6


@pytest.mark.proves("recipes.md")
@pytest.mark.timeout(1800)
def test_every_example_that_reads_a_topic_passes_its_cases(tmp_path: Path) -> None:
    """With a jar on the class path instead of from Maven Central."""
    examples = tmp_path / "examples"
    shutil.copytree(FOLDER, examples)
    avro = examples / "avro-to-json.yaml"
    document = yaml.safe_load(avro.read_text())
    del document["spec"]["dependencies"]
    avro.write_text(yaml.safe_dump(document))
    (of_avro,) = maven_jars("spark-avro", CHECKOUT / "testkit/streams/avro/pom.xml").glob("*.jar")
    of_java = compiled(tmp_path, "java-transform")
    of_java.rename(examples / "java-transform" / "bookings.jar")
    folders = ("examples/tests", "examples/java-transform/cases.yaml")
    code, said = run(tmp_path, *folders, "--class-path", str(of_avro))
    assert code == 0, said
    tested = {f"{it}.yaml" for it in re.findall(r"^ok   examples/tests/(\S+)\.yaml:", said, re.M)}
    of_topics = {it.name for it in examples.glob("*.yaml") if "topics:" in it.read_text()}
    assert tested == of_topics - {"java-transform.yaml"}
    assert said.count("ok   examples/java-transform/cases.yaml") == 3
