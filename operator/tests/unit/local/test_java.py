"""Which Java `penstock run` takes, and the archive of its classes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock.local.errors import CommandError
from penstock.local.tools import class_archive, java
from penstock.local.tools.class_archive import archive_for, key
from penstock.local.tools.download_bar import bar
from testkit.tools.fake_java import fake_java

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


def test_every_jvm_of_the_process_gets_the_java_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME names it afterwards, because the PATH's is too old."""
    old = fake_java(tmp_path / "old", "11.0.2")
    packaged = fake_java(tmp_path / "packaged", "21.0.8")
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", "unset after the test")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(java, "_packaged_home", lambda: packaged.parent.parent)
    assert java.require_java() == str(packaged)
    assert java.java_command() == str(packaged)


@pytest.mark.parametrize("packaged", [True, False])
def test_an_old_java_home_is_what_the_message_corrects(
    packaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To install another Java would not help: JAVA_HOME is not passed over."""
    old = fake_java(tmp_path / "old", "1.8.0_402")
    other = fake_java(tmp_path / "packaged", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    monkeypatch.setattr(java, "_packaged_home", lambda: other.parent.parent if packaged else None)
    with pytest.raises(CommandError, match=r"is Java 8\b.*unset JAVA_HOME, or set it") as raised:
        java.require_java()
    assert "install" not in str(raised.value)


def test_an_empty_java_home_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the driver's JVM, which would otherwise start with the PATH's."""
    old = fake_java(tmp_path / "old", "11.0.2")
    packaged = fake_java(tmp_path / "packaged", "21.0.8")
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(java, "_packaged_home", lambda: packaged.parent.parent)
    assert java.require_java() == java.java_command() == str(packaged)


COMMAND = ["java", "-Xmx1g", "-cp", "/jars/a.jar:/jars/b.jar", "Main"]
FILES = [("/bin/java", 1, 1), ("/jars/a.jar", 2, 2)]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ([*COMMAND[:1], "-Xmx2g", *COMMAND[2:]], FILES),
        (COMMAND, [("/bin/java", 1, 9), FILES[1]]),
        (COMMAND, [FILES[0], ("/jars/a.jar", 9, 2)]),
        (COMMAND, FILES[:1]),
    ],
    ids=["options", "java", "jar", "jars"],
)
def test_another_java_jar_or_option_has_another_archive(
    command: list[str], files: list[tuple[str, int, int]]
) -> None:
    assert key(command, files) != key(COMMAND, FILES)
    assert key(command, files) == key(list(command), list(files))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the archives, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "penstock" / "run" / "classes"


def test_the_first_jvm_writes_the_archive_and_the_next_one_uses_it(cache: Path) -> None:
    first = archive_for(COMMAND)
    assert first.is_missing
    (write, *_) = first.options
    name, _, draft = write.partition("=")
    assert name == "-XX:ArchiveClassesAtExit"
    Path(draft).touch()
    first.keep()

    second = archive_for(COMMAND)
    assert not second.is_missing
    assert second.options[0] == f"-XX:SharedArchiveFile={second.path}"
    assert [second.path] == list(cache.iterdir())


def test_a_jvm_that_wrote_nothing_leaves_the_next_one_to_write_it(cache: Path) -> None:
    """It was killed, or it cannot."""
    archive_for(COMMAND).keep()
    assert archive_for(COMMAND).is_missing


def test_the_archives_used_last_are_kept(cache: Path) -> None:
    cache.mkdir(parents=True)
    for age in range(5):
        file = cache / f"{age}.jsa"
        file.touch()
        os.utime(file, (time.time() - age, time.time() - age))
    archive_for(COMMAND).keep()
    assert sorted(each.name for each in cache.iterdir()) == ["0.jsa", "1.jsa", "2.jsa"]


@pytest.mark.parametrize("own", ["-Xshare:off", "-XX:SharedArchiveFile=/mine"])
def test_a_user_who_chooses_an_archive_gets_no_other(own: str, cache: Path) -> None:
    assert archive_for([*COMMAND, own]).options == ()


def test_a_cache_that_cannot_be_written_is_no_failure(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.touch()
    archive = archive_for(COMMAND)
    assert archive.options == ()
    archive.keep()


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 of 10 MB"), (5 * 2**20, "5 of 10 MB"), (11 * 2**20, "11 of 10 MB")]
)
def test_the_bar_says_how_much_of_how_much(size: int, text: str) -> None:
    """It stays as long as it is, also when more arrives than was expected."""
    drawn = bar(size, 10)
    assert drawn.endswith(text)
    assert len(drawn) - len(text) == len(bar(0, 10)) - len("0 of 10 MB")


def test_jars_in_a_folder_are_part_of_the_key(tmp_path: Path, cache: Path) -> None:
    """`folder/*` is all of its jars."""
    command = ["java", "-cp", f"{tmp_path}/*", "Main"]
    before = archive_for(command)
    (tmp_path / "more.jar").touch()
    assert archive_for(command) != before
    assert class_archive.archive_for(command) == archive_for(command)
