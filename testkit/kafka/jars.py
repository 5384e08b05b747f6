"""Jars from Maven, pinned by a pom.xml, and kept in the cache under a hash of its content."""

import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path

from testkit import system_packages
from testkit.commands import print_progress, run
from testkit.content_hash import build_once, content_hash
from testkit.paths import CHECKOUT, cache_dir

BROKER_POM = CHECKOUT / "testkit" / "kafka" / "image" / "pom.xml"
TOOLS_POM = CHECKOUT / "testkit" / "kafka" / "tools.xml"
CONNECTOR_POM = CHECKOUT / "images" / "spark" / "pom.xml"
S3A_POM = CHECKOUT / "images" / "spark" / "s3a.xml"
CONNECTOR = CHECKOUT / "connector"
CONNECTOR_JAR = "penstock-kafka.jar"


def kafka_jars() -> Path:
    """The folder with the class path of a Kafka broker."""
    system_packages.require("java")
    return maven_jars("kafka-broker", BROKER_POM)


def tools_jars() -> Path:
    """The folder with the jar of Kafka's command line tools, which needs those of a broker."""
    return maven_jars("kafka-tools", TOOLS_POM)


def connector_jars() -> Path:
    """The folder with the jars that are in the image and not in pyspark: Spark's Kafka connector,
    Hadoop's S3A and Penstock's own.
    """
    spark, s3a = spark_connector_jars(), s3a_jars()

    def add_ours(folder: Path) -> None:
        for jar in (*spark.glob("*.jar"), *s3a.glob("*.jar")):
            shutil.copy(jar, folder)
        compile_connector(folder / CONNECTOR_JAR, spark, s3a)

    sources = [CONNECTOR / part for part in ("build", "resources", "src")]
    compiled_for = importlib.metadata.version("pyspark")
    name = content_hash(compiled_for, spark.name, s3a.name, *sources)
    target = cache_dir("jars") / f"connector-{name}"
    return build_once(target, add_ours)


def spark_connector_jars() -> Path:
    """The folder with the jars that Spark's Kafka connector needs beyond pyspark's own."""
    return maven_jars("spark-connector", CONNECTOR_POM)


def s3a_jars() -> Path:
    """The folder with the jars that Hadoop's S3A needs beyond pyspark's own."""
    return maven_jars("spark-s3a", S3A_POM)


def compile_connector(jar: Path, *needs: Path, compiler: Path | None = None) -> None:
    """Compiles connector/ into a jar, with javac or with the Eclipse compiler's jar.

    The folders have the jars of Spark's Kafka connector and of Hadoop's S3A.
    """
    if compiler is None:
        system_packages.require("javac")
    draft = jar.with_suffix(".draft")
    run([CONNECTOR / "build", class_path_with(*needs), draft, compiler or ""], timeout=600)
    draft.replace(jar)  # never half of it


def class_path_with(*folders: Path) -> str:
    """The jars of pyspark and of these folders."""
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    spark = Path(pyspark.origin).parent / "jars"
    return os.pathsep.join(f"{folder}/*" for folder in (spark, *folders))


def maven_jars(name: str, pom: Path) -> Path:
    """The folder with the dependencies of a pom.xml, and theirs."""
    target = cache_dir("jars") / f"{name}-{content_hash(pom)}"
    return build_once(target, lambda folder: _copy_dependencies(pom, folder))


def _copy_dependencies(pom: Path, folder: Path) -> None:
    system_packages.require(*system_packages.JAVA)
    print_progress(f"fetching the jars of {pom.relative_to(CHECKOUT)} with Maven")
    run(
        [
            "mvn",
            "--batch-mode",
            "--update-snapshots",  # otherwise Maven remembers a jar as missing
            "--file",
            pom,
            f"-Dmaven.repo.local={cache_dir('m2')}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}",
        ],
        timeout=600,
        hint="Needs Maven and Java 17 (Debian: apt-get install maven openjdk-17-jre-headless) "
        "and access to Maven Central, or to a mirror that Maven's settings.xml names.",
    )
