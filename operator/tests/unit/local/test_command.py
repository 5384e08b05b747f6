"""`penstock run` before anything starts: what it refuses, why, and with which exit code.

A file in the place of a folder stands for one that cannot be written: root may write everywhere.
"""

from __future__ import annotations

import doctest
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from penstock import cli
from penstock.api.v1alpha1.driver_and_executor import Executor
from penstock.command_line import CommandError
from penstock.driver import main
from penstock.driver.environment import LocalEnvironment
from penstock.local import command
from penstock.local.kafka import clients
from penstock.local.manifest import require_files, with_local_checkpoint
from penstock.local.tools import jars, java
from penstock.local.tools.class_archive import archive_for
from penstock.local.view import progress
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
TO_KAFKA = stream(
    sink=kafka_sink(), transform={"sql": "SELECT CAST(value AS STRING) AS value FROM source"}
).to_yaml()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a stream, and without a driver."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "use_utc", lambda: None)
    monkeypatch.setattr(command, "require_java", lambda: "java")
    monkeypatch.setattr(main, "run", lambda *_: 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "stream.yaml").write_text(RATE)
    (tmp_path / "kafka.yaml").write_text(KAFKA)
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
        (TO_KAFKA, ["--with-kafka", "--feed", "x"], 2, "--feed needs a Kafka source"),
    ],
)
def test_a_refusal_comes_before_anything_starts(
    text: str | None,
    arguments: list[str],
    code: int,
    message: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def never() -> str:
        raise AssertionError("the command did not stop")

    monkeypatch.setattr(command, "require_java", never)
    (here / "stream.yaml").unlink()
    if text is not None:
        (here / "stream.yaml").write_text(text)
    assert cli.main(["run", *arguments, "stream.yaml"]) == code
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
    assert not (here / ".penstock").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rate=0"], ["--rate=x"], ["--partitions=0"], ["--http-port=0"], ["--http-port=65536"],
        ["--http-port=-1"], ["--http-port=x"],
    ],
)  # fmt: skip
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    for manifest in ([], ["stream.yaml"]):
        assert cli.main(["run", *manifest, *arguments]) == 2


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

    def run_driver(*given: Any) -> int:
        started.append(given)
        return 0

    monkeypatch.setattr(command, "run_driver", run_driver)
    assert cli.main(["run", "stream.yaml"]) == 0
    ((stream_, environment, workspace, kafka, *_),) = started
    assert environment.adapted(stream_).spec.executor == Executor(mode="InDriver")
    checkpoint = here / ".penstock" / "numbers" / "checkpoint"
    assert environment.checkpoint == workspace.checkpoint == checkpoint
    assert kafka is None
    assert (here / ".penstock" / ".gitignore").read_text() == "*\n"


def test_a_run_has_the_time_zone_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, and those that it starts: the JVM and Spark's Python workers."""
    monkeypatch.undo()
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        command.use_utc()
        assert time.localtime(0).tm_hour == 0
        assert os.environ["TZ"] == "UTC"
    finally:
        monkeypatch.undo()
        time.tzset()


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


def test_a_run_takes_no_object_store(tmp_path: Path) -> None:
    """Nor its keys: the checkpoint is in a local folder."""
    keys = {
        f"{each}Secret": {"name": "keys", "key": each}
        for each in ("accessKeyId", "secretAccessKey")
    }
    checkpoint = {"objectStore": {"location": "s3a://bucket", **keys}, "generation": 0}
    spec = with_local_checkpoint(stream(checkpoint=checkpoint)).spec
    assert spec.checkpoint.object_store is None
    require_files(spec, tmp_path, tmp_path)


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


def test_help_needs_neither_spark_nor_kubernetes() -> None:
    """The command imports them only when it needs them."""
    slow = {"kopf", "kubernetes", "pyspark", "rich", "sqlglot"}
    code = f"import penstock.cli, sys; print({slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("module", [clients, jars, java, progress])
def test_the_examples_of_the_docstrings(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted
    assert results.failed == 0


def test_each_line_of_the_example_data_is_a_json_object() -> None:
    for file in (CHECKOUT / "examples" / "data").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            assert isinstance(yaml.safe_load(line), dict)


# --- what this machine does not allow ---


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["run", *arguments]) == 2
    return capsys.readouterr().err


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is downloaded or started."""
    with socket.create_server((LocalEnvironment.address, 0)) as server:
        port = str(server.getsockname()[1])
        said = _refused(capsys, "stream.yaml", "--http-port", port)
        assert f"--http-port {port}: Address already in use: choose another --http-port" in said
    assert cli.main(["run", "stream.yaml", "--http-port", port]) == 0


@pytest.mark.parametrize(
    ("taken", "is_folder", "arguments"),
    [
        (".penstock", False, []),
        (".penstock/.gitignore/x", False, []),
        (".penstock/numbers", False, []),
        (".penstock/numbers/checkpoint.lock", True, []),
        ("mine", False, ["--checkpoint", "mine/checkpoint"]),
    ],
)
def test_a_folder_that_cannot_be_written(
    taken: str,
    is_folder: bool,
    arguments: list[str],
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = here / taken
    if path.name == "x":  # a link that leads nowhere
        path = path.parent
        path.parent.mkdir()
        path.symlink_to(here / "nowhere" / "file")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if is_folder else path.touch()
    said = _refused(capsys, "stream.yaml", *arguments)
    assert path.name in said
    assert "choose a folder that you can write to with --checkpoint" in said


def test_a_log_that_cannot_be_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the live view."""
    log = here / ".penstock" / "numbers" / "checkpoint.log"
    log.mkdir(parents=True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    said = _refused(capsys, "stream.yaml")
    assert str(log) in said
    assert "--checkpoint" in said


def test_a_brokers_folder_that_cannot_be_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jars, "jar_folder", lambda *_: here)
    monkeypatch.setattr(jars, "kafka_class_path", lambda *_: [])
    folder = here / ".penstock" / "numbers-with-kafka" / "checkpoint.kafka"
    folder.parent.mkdir(parents=True)
    folder.touch()
    said = _refused(capsys, "--with-kafka", "kafka.yaml")
    assert str(folder) in said
    assert "--checkpoint" in said


def test_a_cache_that_cannot_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "cache").touch()
    said = _refused(capsys, "--with-kafka", "kafka.yaml")
    assert f"{here}/cache" in said
    assert "set XDG_CACHE_HOME" in said


def test_a_user_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a user may run a stream that needs no jars."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME")
    with pytest.raises(CommandError, match="no home folder: set XDG_CACHE_HOME") as raised:
        jars.jar_folder(jars.BROKER, {}, lambda _: None, {})
    assert raised.value.code == 2
    assert archive_for(["java"]).path is None
    assert cli.main(["run", "stream.yaml"]) == 0
