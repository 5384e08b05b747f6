"""What `penstock run` says before it starts anything, and with which exit code."""

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
from penstock.local.errors import Refused
from penstock.local.secret_files import require_files
from penstock.local.tools import java
from penstock.local.workspace import Home, hide_from_git, home_of
from testkit.paths import CHECKOUT
from testkit.streams.streams import kafka_sink, kafka_source, stream

RATE = stream().to_yaml()
KAFKA = stream(kafka_source(), kafka_sink()).to_yaml()
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
BAD_SQL = stream(transform={"sql": "SELECT DISTINCT value FROM source"}).to_yaml()
NO_TOPIC = {"kafka": {"bootstrapServers": "kafka:9092"}}
TO_COLUMN = stream(kafka_source(), NO_TOPIC).to_yaml()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, where nothing may be started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def never(*_: Any) -> None:
        raise AssertionError("it went on")

    monkeypatch.setattr(command, "require_java", never)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        (None, [], 2, "stream.yaml"),
        ("a: [", [], 2, "stream.yaml"),
        (OTHER, [], 1, "there is no ContinuousStream"),
        (f"{RATE}---\n{KAFKA}", [], 1, "2 streams in it (numbers, numbers)"),
        (BAD_SQL, [], 1, "error: numbers: spec.transform.sql"),
        (RATE.replace("rowsPerSecond", "rows"), [], 1, "there is no such field"),
        (RATE, ["--with-kafka"], 2, "has no Kafka"),
        (RATE, ["--bootstrap-servers", "x:1"], 2, "has no Kafka"),
        (KAFKA, ["--with-kafka", "--bootstrap-servers", "x:1"], 2, "exclude each other"),
        (KAFKA, ["--feed", "x"], 2, "--feed needs --with-kafka"),
        (KAFKA, ["--show"], 2, "--show needs --with-kafka"),
        (TO_COLUMN, ["--with-kafka", "--show"], 2, "names none"),
        (
            stream(sink=kafka_sink()).to_yaml(),
            ["--with-kafka", "--feed", "x"],
            2,
            "the stream's source is another",
        ),
    ],
)
def test_what_cannot_run_is_told_before_anything_starts(
    text: str | None,
    arguments: list[str],
    code: int,
    said: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if text is not None:
        (here / "stream.yaml").write_text(text)
    assert cli.main(["run", *arguments, "stream.yaml"]) == code
    out, err = capsys.readouterr()
    assert said in err
    assert out == ""
    assert not (here / ".penstock").exists()


@pytest.mark.parametrize("arguments", [["--rate", "0"], ["--rate", "x"], ["--partitions", "0"], []])
def test_wrong_usage_is_two(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *arguments])
    assert ended.value.code == 2


def test_a_file_may_hold_other_kinds_and_a_sink_that_is_only_local(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`memory` is refused in a cluster; limits of a cluster are none here."""
    local = stream(
        sink={"memory": {"queryName": "rows"}},
        executor={"cores": 1, "minInstances": 3, "maxInstances": 1 + 2},
        source={"rate": {"numPartitions": 9}},
    )
    (here / "stream.yaml").write_text(f"{OTHER}---\n{local.to_yaml()}")
    started: list[tuple[Any, ...]] = []

    def drive(*given: Any, plain: bool) -> int:
        started.append(given)
        return 0

    monkeypatch.setattr(command, "require_java", lambda: "java")
    monkeypatch.setattr(command, "drive", drive)
    assert cli.main(["run", "stream.yaml"]) == 0
    ((stream_, environment, home, company),) = started
    assert stream_.spec.executor.max_instances is None
    assert (
        environment.checkpoint == home.checkpoint == here / ".penstock" / "numbers" / "checkpoint"
    )
    assert company is None
    assert (here / ".penstock" / ".gitignore").read_text() == "*\n"


def test_missing_secrets_and_config_maps_are_files_to_write(tmp_path: Path) -> None:
    """What is there is not asked for."""
    spec = stream(
        kafka_source(
            secretOptions={
                "kafka.sasl.jaas.config": {"name": "login", "key": "jaas"},
                "kafka.ssl.keystore.location": {"name": "login", "key": "there"},
            }
        ),
        transform={"python": {"function": "m:f", "configMap": {"name": "code", "key": "m.py"}}},
    ).spec
    (tmp_path / "login").mkdir()
    (tmp_path / "login" / "there").touch()
    with pytest.raises(Refused) as refused:
        require_files(spec, tmp_path, tmp_path / "cm")
    *_, secret, config_map = str(refused.value).splitlines()
    assert secret == f"{tmp_path}/login/jaas: key jaas of the Secret login"
    assert config_map == f"{tmp_path}/cm/code/m.py: key m.py of the ConfigMap code"
    require_files(stream().spec, tmp_path, tmp_path)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "checkpoint")
    with home.held():
        with pytest.raises(Refused, match="another run"), Home(home.checkpoint).held():
            raise AssertionError
        with Home(tmp_path / "b").held():
            pass
    with home.held():
        pass


def test_a_broker_of_its_own_has_a_checkpoint_of_its_own(here: Path) -> None:
    """The same offsets are other records there."""
    assert home_of("x", None, False).checkpoint != home_of("x", None, True).checkpoint
    given = home_of("x", Path("mine"), True)
    assert given.checkpoint == here / "mine"
    assert {given.log.name, given.broker.name} == {"mine.log", "mine.kafka"}


def test_what_stands_in_the_ignore_file_is_the_users(here: Path) -> None:
    hide_from_git()
    (here / ".penstock" / ".gitignore").write_text("mine\n")
    hide_from_git()
    assert (here / ".penstock" / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("something else", None),
    ],
)
def test_versions_of_java(said: str, version: int | None) -> None:
    assert java.major_version(said) == version


@pytest.mark.parametrize("script", [None, "echo 'java version \"11.0.2\"' >&2"])
def test_a_missing_or_old_java_is_named(
    script: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        binary = tmp_path / "bin" / "java"
        binary.parent.mkdir()
        binary.write_text(f"#!/bin/sh\n{script}\n")
        binary.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Refused, match="Java 17 or newer") as refused:
        java.require_java()
    assert refused.value.code == 2


def test_spark_is_not_needed_to_ask_for_help() -> None:
    """The front door imports neither Spark nor Kubernetes."""
    code = "import penstock.cli, sys; print({'pyspark', 'kopf', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_examples_data_is_what_the_examples_want() -> None:
    """A JSON object a line."""
    for file in (CHECKOUT / "examples" / "data").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            assert isinstance(yaml.safe_load(line), dict)
