"""The messages and exit codes of `penstock run` before anything starts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import cli
from penstock.local import command
from penstock.local.errors import CommandError
from penstock.local.secret_files import require_files
from penstock.local.tools import java
from penstock.local.workspace import Workspace, hide_from_git, workspace_for
from testkit.paths import CHECKOUT
from testkit.streams.streams import kafka_sink, kafka_source, stream

RATE = stream().to_yaml()
KAFKA = stream(kafka_source(), kafka_sink()).to_yaml()
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
BAD_SQL = stream(transform={"sql": "SELECT DISTINCT value FROM source"}).to_yaml()
NO_TOPIC = {"kafka": {"bootstrapServers": "kafka:9092"}}
TO_COLUMN = stream(
    kafka_source(), NO_TOPIC, transform={"sql": "SELECT value, topic FROM source"}
).to_yaml()
TEXT: dict[str, Any] = {"sql": "SELECT CAST(value AS STRING) AS value FROM source"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, where no process may be started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def never(*_: Any) -> None:
        raise AssertionError("the command went on")

    monkeypatch.setattr(command, "require_java", never)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "arguments", "code", "message"),
    [
        (None, [], 2, "stream.yaml"),
        ("a: [", [], 2, "stream.yaml"),
        (OTHER, [], 1, "no ContinuousStream (penstock.dev/v1alpha1) found"),
        (f"{RATE}---\n{KAFKA}", [], 1, "2 streams found (numbers, numbers)"),
        (BAD_SQL, [], 1, "error: numbers: spec.transform.sql"),
        (RATE.replace("rowsPerSecond", "rows"), [], 1, "there is no such field"),
        (RATE, ["--with-kafka"], 2, "has no Kafka source or sink"),
        (RATE, ["--bootstrap-servers", "x:1"], 2, "has no Kafka source or sink"),
        (KAFKA, ["--with-kafka", "--bootstrap-servers", "x:1"], 2, "cannot be used together"),
        (KAFKA, ["--feed", "x"], 2, "--feed needs --with-kafka"),
        (KAFKA, ["--show"], 2, "--show needs --with-kafka"),
        (TO_COLUMN, ["--with-kafka", "--show"], 2, "the stream has none"),
        (
            stream(sink=kafka_sink(), transform=TEXT).to_yaml(),
            ["--with-kafka", "--feed", "x"],
            2,
            "--feed needs a Kafka source",
        ),
    ],
)
def test_a_refusal_comes_before_anything_starts(
    text: str | None,
    arguments: list[str],
    code: int,
    message: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if text is not None:
        (here / "stream.yaml").write_text(text)
    assert cli.main(["run", *arguments, "stream.yaml"]) == code
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
    assert not (here / ".penstock").exists()


@pytest.mark.parametrize("arguments", [["--rate", "0"], ["--rate", "x"], ["--partitions", "0"], []])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *arguments])
    assert ended.value.code == 2


def test_other_resources_are_skipped_and_limits_of_a_cluster_ignored(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory sink, which a cluster refuses, is accepted too."""
    local = stream(
        sink={"memory": {}},
        executor={"cores": 1, "minInstances": 3, "maxInstances": 1 + 2},
        source={"rate": {"numPartitions": 9}},
    )
    (here / "stream.yaml").write_text(f"{OTHER}---\n{local.to_yaml()}")
    started: list[tuple[Any, ...]] = []

    def run_driver(*given: Any, plain: bool) -> int:
        started.append(given)
        return 0

    monkeypatch.setattr(command, "require_java", lambda: "java")
    monkeypatch.setattr(command, "run_driver", run_driver)
    assert cli.main(["run", "stream.yaml"]) == 0
    ((stream_, environment, workspace, side_tasks),) = started
    assert stream_.spec.executor.max_instances is None
    assert (
        environment.checkpoint
        == workspace.checkpoint
        == here / ".penstock" / "numbers" / "checkpoint"
    )
    assert side_tasks is None
    assert (here / ".penstock" / ".gitignore").read_text() == "*\n"


def test_missing_secrets_and_config_maps_are_listed_as_files(tmp_path: Path) -> None:
    """Existing files are not listed."""
    spec = stream(
        kafka_source(
            secretOptions={
                "kafka.ssl.key.password": {"name": "login", "key": "jaas"},
                "kafka.ssl.keystore.location": {"name": "login", "key": "there"},
            }
        ),
        transform={"python": {"function": "m:f", "configMap": {"name": "code", "key": "m.py"}}},
    ).spec
    (tmp_path / "login").mkdir()
    (tmp_path / "login" / "there").touch()
    with pytest.raises(CommandError) as raised:
        require_files(spec, tmp_path, tmp_path / "cm")
    *_, secret, config_map = str(raised.value).splitlines()
    assert secret == f"{tmp_path}/login/jaas: key jaas of the Secret login"
    assert config_map == f"{tmp_path}/cm/code/m.py: key m.py of the ConfigMap code"
    require_files(stream().spec, tmp_path, tmp_path)


def test_one_run_at_a_time_per_checkpoint(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "a" / "checkpoint")
    with workspace.locked():
        with (
            pytest.raises(CommandError, match="another run"),
            Workspace(workspace.checkpoint).locked(),
        ):
            raise AssertionError
        with Workspace(tmp_path / "b").locked():
            pass
    with workspace.locked():
        pass


def test_a_run_with_its_own_broker_has_its_own_checkpoint(here: Path) -> None:
    """The same offsets are other records in another broker."""
    assert workspace_for("x", None, False).checkpoint != workspace_for("x", None, True).checkpoint
    given = workspace_for("x", Path("mine"), True)
    assert given.checkpoint == here / "mine"
    assert {given.log.name, given.broker.name} == {"mine.log", "mine.kafka"}


def test_an_existing_ignore_file_is_kept(here: Path) -> None:
    hide_from_git()
    (here / ".penstock" / ".gitignore").write_text("mine\n")
    hide_from_git()
    assert (here / ".penstock" / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("something else", None),
    ],
)
def test_java_versions(output: str, version: int | None) -> None:
    assert java.major_version(output) == version


@pytest.mark.parametrize("script", [None, "echo 'java version \"11.0.2\"' >&2"])
def test_a_missing_or_old_java_is_refused(
    script: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        binary = tmp_path / "bin" / "java"
        binary.parent.mkdir()
        binary.write_text(f"#!/bin/sh\n{script}\n")
        binary.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CommandError, match="Java 17 or newer") as raised:
        java.require_java()
    assert raised.value.code == 2


def test_help_needs_neither_spark_nor_kubernetes() -> None:
    """The command imports them only when it needs them."""
    slow = {"kopf", "kubernetes", "pyspark", "rich", "sqlglot"}
    code = f"import penstock.cli, sys; print({slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_each_line_of_the_example_data_is_a_json_object() -> None:
    for file in (CHECKOUT / "examples" / "data").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            assert isinstance(yaml.safe_load(line), dict)
