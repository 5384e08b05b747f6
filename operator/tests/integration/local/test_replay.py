"""`penstock replay` as a user runs it, with a real Spark and broker."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from testkit.driver.class_archive import command_environment
from testkit.kafka.topics import Topics, number_flow

SENT_MS = int(time.time() * 1000)
SQL = {
    "sql": "SELECT key, CAST(CAST(CAST(value AS STRING) AS INT) + 1 AS STRING) AS value "
    "FROM source WHERE value != X'39'"
}


def replay(
    topics: Topics, folder: Path, at: str, transform: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    """The manifest comes from stdin, as `kubectl get -o yaml` prints it."""
    flow = number_flow(topics, "not-read-here", "not-written", transform=transform)
    return penstock(folder, "replay", "-", "--at", at, manifest=flow.to_yaml())


def penstock(folder: Path, *arguments: str, manifest: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments],
        cwd=folder, env=command_environment(), input=manifest, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def topic(shared: Topics) -> str:
    name = shared.make(1)
    producer = Producer({"bootstrap.servers": shared.bootstrap})
    for value in (b"8", b"card 4111", b"9", b"10"):
        producer.produce(name, value, b"k", headers=[("h", b"\xff")], timestamp=SENT_MS)
    assert producer.flush(30) == 0
    return name


@pytest.mark.proves("laptop.md#one-record-alone")
@pytest.mark.parametrize(
    ("offset", "code", "words"),
    [
        (0, 0, "row 1\n  key: k\n  value: 9\n"),
        (1, 1, "it: CastInvalidInput\n[CAST_INVALID_INPUT] The value 'card 4111'"),
        pytest.param(2, 0, "no row comes out", marks=pytest.mark.full),
    ],
)
def test_one_record_is_run_through_the_query(
    offset: int, code: int, words: str, topic: str, shared: Topics, tmp_path: Path
) -> None:
    at = f"{topic}/0@{offset}"
    ended = replay(shared, tmp_path, at, SQL)
    assert ended.returncode == code, ended.stderr
    sent = datetime.fromtimestamp(SENT_MS / 1000, UTC).isoformat(timespec="milliseconds")
    assert ended.stdout.startswith(f"record {at}, {sent}\n  key: k\n")
    assert "  header h: 0xff\n" in ended.stdout
    assert words in ended.stdout
    assert "row 2" not in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_not_there(topic: str, shared: Topics, tmp_path: Path) -> None:
    ended = replay(shared, tmp_path, f"{topic}/0@77", {})
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{topic}/0@77: there is no such record")
    assert ended.stdout == ""


@pytest.mark.proves("how-to/test-a-stream.md#from-a-failure-to-a-case")
def test_a_record_is_kept_as_a_case_that_penstock_test_runs(
    topic: str, shared: Topics, tmp_path: Path
) -> None:
    flow = number_flow(shared, "not-read-here", "not-written", transform=SQL)
    manifest = tmp_path / "stream.yaml"
    manifest.write_text(flow.to_yaml())
    for offset, expects in ((0, "out:"), (1, "fails:")):
        at, file = f"{topic}/0@{offset}", f"cases/at-{offset}.yaml"
        arguments = ("replay", "stream.yaml", "--at", at, "--save", file)
        saved = penstock(tmp_path, *arguments)
        assert f"a case was written to {file}" in saved.stderr
        assert expects in (tmp_path / file).read_text()
        again = penstock(tmp_path, *arguments)
        assert (again.returncode, again.stderr) == (
            2, f"--save {file}: the file exists: choose another name\n",
        )  # fmt: skip
    tested = penstock(tmp_path, "test", "cases")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert tested.stdout.count("ok  ") == 2
