"""The Java that `make demo` takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from demo.laptop import find_java
from penstock.command_line import CommandError
from penstock.local.tools import java
from testkit.fake_java import fake_java


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JAVA_HOME that is too old; there is no Java as a Python package."""
    old = fake_java(tmp_path / "old", "11.0.2").parent.parent
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    return old


def test_an_old_java_home_is_passed_over_and_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for the driver and the broker, which are processes of their own."""
    other = fake_java(tmp_path / "other", "21.0.8")
    monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")
    assert find_java() == java.java_command() == "java"
    (line,) = capsys.readouterr().out.splitlines()
    assert str(home) in line
    assert str(other) in line


def test_without_any_java_the_demo_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    with pytest.raises(CommandError, match="install it"):
        find_java()


def test_a_java_home_that_will_do_is_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = fake_java(tmp_path / "own", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(own.parent.parent))
    assert find_java() == str(own)
    assert capsys.readouterr().out == ""
