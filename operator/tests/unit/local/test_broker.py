"""How the local broker is started, with a stand-in for Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.local.kafka.broker import Broker, BrokerError

_JAVA = """#!/bin/sh
for word in "$@"; do case $word in
  kafka.tools.StorageTool) echo format >> {folder}/calls; {format} ;;
  kafka.Kafka) echo broker >> {folder}/calls; echo Kafka Server started; exec sleep 60 ;;
esac; done
"""
_FORMATS = (
    "mkdir -p '{folder}/a folder/data'; touch '{folder}/a folder/data/meta.properties'; exit 0"
)


def _broker(folder: Path, format_with: str = _FORMATS) -> Broker:
    """A broker in a folder with a space in its name."""
    java = folder / "java"
    java.write_text(_JAVA.format(folder=folder, format=format_with.format(folder=folder)))
    java.chmod(0o755)
    return Broker(folder / "a folder", folder, str(java))


def _calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().split()


def test_only_a_new_folder_is_formatted(tmp_path: Path) -> None:
    """Before the broker starts; a later start finds it formatted, also that of another object."""
    broker = _broker(tmp_path)
    try:
        broker.start()
        assert _calls(tmp_path) == ["format", "broker"]
        broker.kill()
        broker.start()
        broker.kill()
        broker = _broker(tmp_path)
        broker.start()
        assert _calls(tmp_path) == ["format", "broker", "broker", "broker"]
    finally:
        broker.kill()


def test_a_folder_that_cannot_be_formatted_is_an_error(tmp_path: Path) -> None:
    """With what the tool has said, and without a broker."""
    broker = _broker(tmp_path, "echo the disk is full; exit 1")
    with pytest.raises(BrokerError, match="the disk is full"):
        broker.start()
    assert _calls(tmp_path) == ["format"]
    assert not broker.running


@pytest.mark.parametrize("name", ["żółw", "é", "a,b", "a\\b", " 😀"])
def test_any_path_will_do(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java reads the file as Latin-1, with escapes, and log.dirs as a list: it holds no path."""
    folder, java = tmp_path / name / "kafka", tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\npwd -P; echo "$@"; echo Kafka Server started; exec sleep 60\n')
    java.chmod(0o755)
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "meta.properties").touch()
    monkeypatch.chdir(tmp_path)
    broker = Broker(Path(name) / "kafka", Path("jars"), "bin/java")
    try:
        broker.start()
        here, arguments, *_ = broker.log.read_text().splitlines()
    finally:
        broker.kill()
    assert Path(here) == folder.resolve()
    assert arguments.endswith(f"-cp {tmp_path}/jars/* kafka.Kafka server.properties")
    settings = (folder / "server.properties").read_bytes().decode("ascii").splitlines()
    assert [each for each in settings if each.startswith("log.dir")] == ["log.dirs=data"]
