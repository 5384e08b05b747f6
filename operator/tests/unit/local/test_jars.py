"""The jars that `penstock run` fetches: which, of what version, and what is said when it cannot."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from penstock.api.v1alpha1 import StreamSpec
from penstock.local.errors import Refused
from penstock.local.tools import jars
from testkit.paths import CHECKOUT
from testkit.streams.specs import KAFKA_TO_KAFKA, RATE_TO_CONSOLE, changed

ROOT = CHECKOUT
_MAVEN = {"m": "http://maven.apache.org/POM/4.0.0"}


def pinned(pom: str) -> set[str]:
    """The dependencies of a pom.xml."""
    found = ET.parse(ROOT / pom).findall("m:dependencies/m:dependency", _MAVEN)
    return {
        ":".join(str(each.findtext(f"m:{part}", "", _MAVEN)) for part in parts)
        for each in found
        for parts in [("groupId", "artifactId", "version")]
    }


@pytest.mark.parametrize(
    ("fetched", "pom"),
    [(jars.CONNECTOR, "images/spark/pom.xml"), (jars.BROKER, "testkit/kafka/image/pom.xml")],
    ids=["connector", "broker"],
)
def test_the_laptop_has_the_versions_of_the_images(fetched: jars.Jars, pom: str) -> None:
    assert set(fetched.coordinates) == pinned(pom)


@pytest.mark.parametrize(
    ("spec", "class_path", "lacks"),
    [
        (RATE_TO_CONSOLE, "", False),
        (KAFKA_TO_KAFKA, "", True),
        (changed(KAFKA_TO_KAFKA, "sink", {"console": {}}), "", True),
        (KAFKA_TO_KAFKA, "{there}/*", False),
        (KAFKA_TO_KAFKA, "/nowhere/*:{there}/spark-sql-kafka-0-10_2.13-4.2.0.jar", False),
        (KAFKA_TO_KAFKA, "{there}/other.jar:{there}", True),
        (
            changed(
                KAFKA_TO_KAFKA,
                "dependencies",
                {"packages": ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"]},
            ),
            "",
            False,
        ),
    ],
    ids=["no-kafka", "kafka", "source-only", "folder", "jar", "another-jar", "package"],
)
def test_the_connector_is_fetched_where_it_is_missing(
    spec: dict[str, object], class_path: str, lacks: bool, tmp_path: Path
) -> None:
    for name in ("spark-sql-kafka-0-10_2.13-4.2.0.jar", "other.jar"):
        (tmp_path / name).touch()
    given = class_path.format(there=tmp_path)
    assert jars.lacks_connector(StreamSpec.model_validate(spec), given) is lacks


class Maven:
    """Stands for the resolver's process: makes a jar, or fails with these words."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if self.fails:
            return subprocess.CompletedProcess(command, 1, "", self.fails)
        (Path(command[3]) / "made.jar").touch()
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """An environment with a cache of its own."""
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_jars_are_fetched_once(cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    maven, told = Maven(), list[str]()
    monkeypatch.setattr(subprocess, "run", maven)
    conf = {"spark.jars.ivySettings": "/here/ivy.xml"}
    first = jars.folder_of(jars.BROKER, conf, told.append, cache)
    assert [jar.name for jar in first.iterdir()] == ["made.jar"]
    assert jars.folder_of(jars.BROKER, conf, told.append, cache) == first
    (command,) = maven.commands
    assert {"--transitive", "--ivy-settings=/here/ivy.xml", *jars.BROKER.coordinates} < {*command}
    assert len(told) == 1


def test_what_cannot_be_fetched_leaves_nothing_and_says_what_to_do(
    cache: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", Maven("unresolved dependency"))
    with pytest.raises(Refused) as refused:
        jars.folder_of(jars.CONNECTOR, {}, lambda _: None, cache)
    for words in ("unresolved dependency", jars.CONNECTOR.variable, *jars.CONNECTOR.coordinates):
        assert words in str(refused.value)
    assert list((tmp_path / "penstock" / "run").iterdir()) == []


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    environment = {jars.BROKER.variable: str(tmp_path)}
    with pytest.raises(Refused, match="no jars"):
        jars.folder_of(jars.BROKER, {}, lambda _: None, environment)
    (tmp_path / "kafka.jar").touch()
    assert jars.folder_of(jars.BROKER, {}, lambda _: None, environment) == tmp_path
