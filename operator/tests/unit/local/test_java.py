"""Which Java `penstock run` takes, and the archive of its classes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock.command_line import CommandError
from penstock.local.tools import class_archive, java
from penstock.local.tools.class_archive import archive_for
from testkit.fake_java import fake_java
from testkit.wait import wait_for

PACKAGED = Path("/packaged")
IN_PACKAGE = "/packaged/bin/java"


@pytest.mark.parametrize(
    ("home", "wrong", "packaged", "command", "problem"),
    [
        ("", {}, PACKAGED, "java", ""),
        ("/home", {}, PACKAGED, "/home/bin/java", ""),
        ("", {"java": "old"}, PACKAGED, IN_PACKAGE, ""),
        ("", {"java": "old"}, None, "java", "old"),
        ("", {"java": "old", IN_PACKAGE: "broken"}, PACKAGED, IN_PACKAGE, "broken"),
        ("/home", {"/home/bin/java": "old"}, PACKAGED, "/home/bin/java", "old"),
    ],
    ids=["path", "home", "packaged", "none", "broken package", "a bad JAVA_HOME is named"],
)
def test_the_choice_of_java(
    home: str, wrong: dict[str, str], packaged: Path | None, command: str, problem: str
) -> None:
    """JAVA_HOME, the PATH, the package: in this order, and a JAVA_HOME is never passed over."""
    environment = {"JAVA_HOME": home} if home else {}
    found = java.choose(environment, lambda each: wrong.get(each, ""), packaged)
    assert found == (command, problem)


@pytest.mark.parametrize(
    ("version", "packaged", "words"),
    [
        ("1.8.0_402", True, r"is Java 8\b.*unset JAVA_HOME, or set it"),
        ("1.8.0_402", False, r"is Java 8\b.*unset JAVA_HOME, or set it"),
        (None, True, r"does not run here\. Spark needs Java 17 or newer.*unset JAVA_HOME"),
    ],
)
def test_an_old_or_wrong_java_home_is_what_the_message_corrects(
    version: str | None,
    packaged: bool,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To install another Java would not help: JAVA_HOME is not passed over."""
    old = tmp_path / "old"
    if version is not None:
        old = fake_java(old, version).parent.parent
    other = fake_java(tmp_path / "packaged", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(java, "_packaged_home", lambda: other.parent.parent if packaged else None)
    with pytest.raises(CommandError, match=words) as raised:
        java.require_java()
    assert "install" not in str(raised.value)
    assert raised.value.code == 2


@pytest.mark.parametrize("home", [None, ""])
def test_every_jvm_of_the_process_gets_the_java_of_the_package(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME names it afterwards, because the PATH's is too old. An empty one is none."""
    old = fake_java(tmp_path / "old", "11.0.2")
    packaged = fake_java(tmp_path / "packaged", "21.0.8")
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", "")
    if home is None:
        monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(java, "_packaged_home", lambda: packaged.parent.parent)
    assert java.require_java() == java.java_command() == str(packaged)


COMMAND = ["java", "-Xmx1g", "-cp", "/jars/a.jar", "Main"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the archives, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "penstock" / "run" / "classes"


def test_the_first_jvm_lists_its_classes_and_a_later_one_uses_the_archive(
    cache: Path, tmp_path: Path
) -> None:
    """Another process writes it meanwhile, once."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\necho "$@" >> "$0.calls"\ncp "${2#*=}" "${3#*=}"\n')
    java.chmod(0o755)
    command = [str(java), *COMMAND[1:]]
    first = archive_for(command)
    assert first.options_if_written == ()
    first.write()  # no JVM has listed any yet
    name, _, listed = first.options[0].partition("=")
    assert name == "-XX:DumpLoadedClassList"
    Path(listed).write_text("java/lang/Object\njava/lang/Stri")
    first.write()
    first.write()
    wait_for("the archive", lambda: not class_archive.is_being_written(), 30)
    first.keep()

    second = archive_for(command)
    (path,) = cache.iterdir()
    assert second.options[0] == f"-XX:SharedArchiveFile={path}"
    assert second.options_if_written == second.options
    assert path.read_text() == "java/lang/Object\n"
    (call,) = (tmp_path / "java.calls").read_text().splitlines()
    assert call.startswith("-Xshare:dump ")
    assert call.endswith(" -cp /jars/a.jar Main")


def test_an_archive_that_could_not_be_written_is_left_to_the_next_one(cache: Path) -> None:
    command = ["/bin/false", *COMMAND[1:]]
    archive = archive_for(command)
    Path(archive.options[0].partition("=")[2]).write_text("java/lang/Object\n")
    archive.write()
    wait_for("an end", lambda: not class_archive.is_being_written(), 30)
    archive.keep()
    assert list(cache.iterdir()) == []
    assert archive_for(command).options[0].startswith("-XX:DumpLoadedClassList=")


def test_a_list_that_cannot_be_read_is_no_failure(cache: Path) -> None:
    archive = archive_for(COMMAND)
    Path(archive.options[0].partition("=")[2]).mkdir()
    archive.write()
    assert not class_archive.is_being_written()


def test_the_archives_used_last_are_kept(cache: Path) -> None:
    """And nothing that a killed process has left."""
    cache.mkdir(parents=True)
    for age in range(5):
        file = cache / f"{age}.jsa"
        file.touch()
        os.utime(file, (time.time() - age, time.time() - age))
    for name, then in (("5.17-draft", time.time() - 4000), ("6.18-draft", time.time() - 10)):
        (cache / name).touch()
        os.utime(cache / name, (then, then))
    (cache / "7.19-classes").touch()
    os.utime(cache / "7.19-classes", (time.time() - 600, time.time() - 600))
    assert not class_archive.is_being_written()
    (cache / "7.19-classes").unlink()
    archive_for(COMMAND).keep()
    assert sorted(path.name for path in cache.iterdir()) == [
        "0.jsa", "1.jsa", "2.jsa", "6.18-draft",
    ]  # fmt: skip


@pytest.mark.parametrize("own", ["-Xshare:off", "-XX:SharedArchiveFile=/mine"])
def test_a_user_who_chooses_an_archive_gets_no_other(own: str, cache: Path) -> None:
    assert archive_for([*COMMAND, own]).options == ()


def test_a_cache_that_cannot_be_written_is_no_failure(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.touch()
    archive = archive_for(COMMAND)
    assert archive.options == ()
    archive.keep()


def test_another_java_jar_or_option_has_another_archive(tmp_path: Path, cache: Path) -> None:
    """`folder/*` is all of its jars."""
    jar = tmp_path / "a.jar"
    jar.touch()
    command = ["java", "-cp", f"{tmp_path}/*", "Main"]
    archives = [archive_for(command), archive_for([*command, "-Xmx2g"])]
    jar.write_text("changed")
    archives.append(archive_for(command))
    (tmp_path / "more.jar").touch()
    archives += [archive_for(command), archive_for([str(jar), *command[1:]])]
    assert len({archive.path for archive in archives}) == len(archives)
    assert archive_for(command) == archive_for(command)
