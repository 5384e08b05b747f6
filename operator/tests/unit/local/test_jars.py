"""The jars that `penstock run` downloads: which ones, their versions, and the error messages."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.api.v1alpha1 import StreamSpec
from penstock.command_line import CommandError
from penstock.local import command
from penstock.local.tools import jars
from scripts import data_source
from testkit.paths import CHECKOUT
from testkit.streams.streams import KAFKA_TO_KAFKA, RATE_TO_CONSOLE, changed

_MAVEN = {"m": "http://maven.apache.org/POM/4.0.0"}


def pinned(pom: str) -> set[str]:
    """The dependencies in a pom.xml."""
    parsed = ET.parse(CHECKOUT / pom)
    sdk = parsed.findtext("m:properties/m:sdk", "", _MAVEN)
    return {
        ":".join(
            each.findtext(f"m:{part}", "", _MAVEN).replace("${sdk}", sdk)
            for part in ("groupId", "artifactId", "version")
        )
        for each in parsed.findall("m:dependencies/m:dependency", _MAVEN)
    }


@pytest.mark.parametrize(
    ("bundle", "pom"),
    [(jars.CONNECTOR, "images/spark/pom.xml"), (jars.BROKER, "testkit/kafka/image/pom.xml")],
    ids=["connector", "broker"],
)
def test_jar_versions_are_those_of_the_images(bundle: jars.Jars, pom: str) -> None:
    assert set(bundle.coordinates) == pinned(pom)


def test_the_compiler_is_the_one_that_is_tested() -> None:
    assert set(data_source.COMPILER.coordinates) == pinned("connector/ecj.xml")


def test_the_data_source_is_compiled_with_the_s3a_of_the_image() -> None:
    """Of the AWS SDK it needs other modules than those that the image's pom.xml names."""

    def versions(coordinates: Iterable[str]) -> set[tuple[str, str]]:
        return {(group, version) for group, _, version in (c.split(":") for c in coordinates)}

    assert versions(data_source.S3A.coordinates) == versions(pinned("images/spark/s3a.xml"))


CONNECTOR = "spark-sql-kafka-0-10_2.13-4.2.0.jar"


@pytest.mark.parametrize(
    ("class_path", "added"),
    [
        ("", "connector ours"),
        ("/nowhere/*:{there}/other.jar:{there}", "connector ours"),
        ("{there}/*", "ours"),
        (f"/nowhere/*:{{there}}/{CONNECTOR}", "ours"),
        ("{image}/*", ""),
    ],
    ids=["nothing", "another-jar", "folder", "jar", "the image's"],
)
def test_a_stream_with_kafka_gets_what_the_class_path_has_not(
    class_path: str, added: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's connector and the data source, in one class loader: the one needs the other."""
    ours = jars.DATA_SOURCE.name
    for folder, names in {
        "there": (CONNECTOR, "other.jar"), "image": (CONNECTOR, ours), "connector": (CONNECTOR,),
    }.items():  # fmt: skip
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    monkeypatch.setenv(jars.CONNECTOR.variable, str(tmp_path / "connector"))
    monkeypatch.setattr(jars, "DATA_SOURCE", tmp_path / ours)
    given = class_path.format(there=tmp_path / "there", image=tmp_path / "image")

    def made(spec: dict[str, object]) -> str:
        return command.class_path_of(given, StreamSpec.model_validate(spec), tmp_path)

    if "ours" in added:  # not compiled yet
        with pytest.raises(CommandError, match="run make data-source in a checkout"):
            made(KAFKA_TO_KAFKA)
        jars.DATA_SOURCE.touch()
    places = {"connector": f"{tmp_path / 'connector'}/*", "ours": str(jars.DATA_SOURCE)}
    expected = [given, *(places[name] for name in added.split())]
    assert made(KAFKA_TO_KAFKA) == ":".join(filter(None, expected))
    assert made(changed(KAFKA_TO_KAFKA, "sink", {"console": {}})) == made(KAFKA_TO_KAFKA)
    assert made(RATE_TO_CONSOLE) == given


class Maven:
    """Stands in for the resolver process: creates a jar, or fails with this error."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if self.error:
            return subprocess.CompletedProcess(command, 1, "", self.error)
        (Path(command[3]) / "made.jar").touch()
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """An environment with a cache folder of its own."""
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_jars_are_downloaded_once(cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    maven, messages = Maven(), list[str]()
    monkeypatch.setattr(subprocess, "run", maven)
    conf = {"spark.jars.ivySettings": "/here/ivy.xml"}
    first = jars.jar_folder(jars.BROKER, conf, messages.append, cache)
    assert [jar.name for jar in first.iterdir()] == ["made.jar"]
    assert jars.jar_folder(jars.BROKER, conf, messages.append, cache) == first
    (command,) = maven.commands
    assert {"--transitive", "--ivy-settings=/here/ivy.xml", *jars.BROKER.coordinates} < {*command}
    assert len(messages) == 1


def test_a_failed_download_leaves_no_files_and_says_what_to_do(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", Maven("unresolved dependency"))
    with pytest.raises(CommandError) as raised:
        jars.jar_folder(jars.CONNECTOR, {}, lambda _: None, cache)
    for words in ("unresolved dependency", jars.CONNECTOR.variable, *jars.CONNECTOR.coordinates):
        assert words in str(raised.value)
    assert list((tmp_path / "penstock" / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("conf", "environment", "said", "unsaid"),
    [
        ({}, {}, "spec.sparkConf", "user and a password"),
        ({}, {}, "set HTTPS_PROXY", "user and a password"),
        (None, {}, jars.BROKER.variable, "sparkConf"),
        (None, {"https_proxy": "http://me:word@proxy"}, "user and a password", "set HTTPS_PROXY"),
        (None, {"HTTPS_PROXY": "http://me:word@proxy"}, "user and a password", "word@"),
    ],
    ids=["a spec", "no proxy", "the demo", "a password", "the password is not shown"],
)
def test_a_failed_download_says_what_can_be_done_there(
    conf: dict[str, str] | None,
    environment: dict[str, str],
    said: str,
    unsaid: str,
    cache: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The demo has no spec to edit."""
    monkeypatch.setattr(subprocess, "run", Maven("timed out"))
    with pytest.raises(CommandError) as raised:
        jars.jar_folder(jars.BROKER, conf, lambda _: None, {**cache, **environment})
    assert said in str(raised.value)
    assert unsaid not in str(raised.value)
    assert raised.value.code == 2


def test_jars_from_a_folder_of_the_user(tmp_path: Path) -> None:
    environment = {jars.BROKER.variable: str(tmp_path)}
    with pytest.raises(CommandError, match="without jars"):
        jars.jar_folder(jars.BROKER, {}, lambda _: None, environment)
    (tmp_path / "kafka.jar").touch()
    assert jars.jar_folder(jars.BROKER, {}, lambda _: None, environment) == tmp_path
