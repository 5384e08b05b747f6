"""What `penstock run` cannot use on this machine: it names it, and says what to choose instead.

A file in the place of a folder stands for one that cannot be written: root may write everywhere.
"""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import cli
from penstock.driver import main
from penstock.local import command
from penstock.local.errors import CommandError
from penstock.local.kafka.topics import topic_to_feed, topics_to_create
from penstock.local.tools import jars
from penstock.local.tools.class_archive import archive_for
from testkit.streams.streams import kafka_sink, kafka_source, stream


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a stream and without a driver."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "require_java", lambda: "java")
    monkeypatch.setattr(main, "run", lambda *_: 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "stream.yaml").write_text(stream().to_yaml())
    (tmp_path / "kafka.yaml").write_text(stream(kafka_source(), kafka_sink()).to_yaml())
    return tmp_path


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["run", *arguments]) == 2
    return capsys.readouterr().err


def test_a_run_that_finds_all_it_needs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert cli.main(["run", "stream.yaml", "--http-port", str(port)]) == 0


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is downloaded or started."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        said = _refused(capsys, "stream.yaml", "--http-port", port)
        assert f"--http-port {port}: Address already in use: choose another --http-port" in said


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x"])
def test_a_port_out_of_range(port: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "stream.yaml", f"--http-port={port}"])
    assert ended.value.code == 2


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
        path.parent.parent.mkdir()
        path.parent.symlink_to(here / "nowhere" / "file")
        path = path.parent
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


def test_a_user_without_a_home_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("pattern", [r"\p{Lower}+", r"(?<name>i)n", "[a-z&&[^x]]+"])
def test_a_pattern_that_only_java_can_read(pattern: str) -> None:
    """Java says whether the topic matches when the stream starts."""
    source: dict[str, Any] = {"topics": None, "topicPattern": pattern}
    spec = stream(kafka_source(**source), kafka_sink()).spec
    with pytest.raises(CommandError, match="--topic"):
        topics_to_create(spec, 4)
    assert topics_to_create(spec, 4, ("in",)) == {"in": 4, "out": 4}
    assert topic_to_feed(spec, ("in",)) == "in"
