"""Jars from Maven, pinned by a committed pom.xml and kept in the cache by its content."""

from pathlib import Path

from e2e.cluster import system
from e2e.cluster.content import build_once, content_hash
from e2e.cluster.paths import CHECKOUT, cache_dir
from e2e.cluster.proc import run, say

BROKER_POM = CHECKOUT / "e2e" / "kafka" / "pom.xml"
CONNECTOR_POM = CHECKOUT / "images" / "spark" / "pom.xml"


def kafka_jars() -> Path:
    """The folder with everything a Kafka broker's class path needs."""
    return _jars("kafka-broker", BROKER_POM)


def connector_jars() -> Path:
    """The folder with the jars Spark needs beyond pyspark's own to speak with Kafka."""
    return _jars("spark-connector", CONNECTOR_POM)


def _jars(name: str, pom: Path) -> Path:
    target = cache_dir("jars") / f"{name}-{content_hash(pom)}"
    return build_once(target, lambda folder: _copy_dependencies(pom, folder))


def _copy_dependencies(pom: Path, folder: Path) -> None:
    system.require(*system.JAVA)
    say(f"fetching the jars of {pom.relative_to(CHECKOUT)} with Maven")
    run(
        [
            "mvn",
            "--batch-mode",
            "--update-snapshots",  # a miss is remembered otherwise, also after it is mended
            "--file",
            pom,
            f"-Dmaven.repo.local={cache_dir('m2')}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}",
        ],
        timeout=600,
        hint="Needs Maven and Java 17 (Debian: apt-get install maven openjdk-17-jre-headless) "
        "and a way to Maven Central or a mirror named in Maven's own settings.xml.",
    )
