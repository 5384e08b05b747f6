"""Jars that a laptop lacks: Spark's Kafka connector, and a broker.

Fetched once, by the resolver inside Spark (maven.py), and kept in the user's cache. The versions
are those of images/spark/pom.xml and testkit/kafka/image/pom.xml; test_jars.py holds them to it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.api.v1alpha1 import StreamSpec
from penstock.local.errors import Refused

_FETCH_SECONDS = 600.0
_CONNECTOR_NAME = "spark-sql-kafka-0-10_"


@dataclass(frozen=True)
class Jars:
    """Some jars that belong together."""

    name: str
    what: str
    coordinates: tuple[str, ...]
    """Maven's, group:artifact:version."""
    transitive: bool
    """Whether what these need is wanted too."""
    variable: str
    """The environment variable that names a folder with them, for machines without the way out."""


CONNECTOR = Jars(
    name="spark-connector",
    what="Spark's Kafka connector (10 MB)",
    # What these need pyspark has; an older copy beside it would only shadow a newer one. The token
    # provider is in no Maven repository for every version of Spark: this one runs with 4.2.0.
    coordinates=(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    transitive=False,
    variable="PENSTOCK_CONNECTOR_JARS",
)
BROKER = Jars(
    name="kafka-broker",
    what="a Kafka broker (45 MB)",
    coordinates=("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
    variable="PENSTOCK_KAFKA_JARS",
)


def lacks_connector(spec: StreamSpec, class_path: str) -> bool:
    """Whether the stream speaks with Kafka, and nothing that it is given brings the connector."""
    if spec.source.kafka is None and spec.sink.kafka is None:
        return False
    wanted = [*spec.dependencies.packages, *spec.dependencies.jars]
    if any(_CONNECTOR_NAME in each for each in wanted):
        return False
    return not any(_has_connector(Path(part)) for part in class_path.split(os.pathsep) if part)


def _has_connector(part: Path) -> bool:
    folder, pattern = (part.parent, "*.jar") if part.name == "*" else (part.parent, part.name)
    return any(_CONNECTOR_NAME in jar.name for jar in folder.glob(pattern))


def folder_of(
    jars: Jars,
    conf: Mapping[str, str],
    say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> Path:
    """The folder with these jars, fetched if they are not there yet; `conf` is spec.sparkConf.

    Raises Refused, with what can be done, if they cannot be had.
    """
    named = environment.get(jars.variable)
    if named:
        if not any(Path(named).glob("*.jar")):
            raise Refused(f"{jars.variable} names {named}, where there are no jars", code=2)
        return Path(named)
    key = hashlib.sha256(" ".join(jars.coordinates).encode()).hexdigest()[:12]
    target = _cache(environment) / f"{jars.name}-{key}"
    if not target.is_dir():
        say(f"fetching {jars.what}, once, into {target}")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{jars.name}-", dir=target.parent))
        try:
            _fetch(jars, conf, draft)
            _put(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return target


def _cache(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock" / "run"


def _put(draft: Path, target: Path) -> None:
    """All of the folder or nothing of it; somebody else may have been quicker."""
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _fetch(jars: Jars, conf: Mapping[str, str], folder: Path) -> None:
    command = [sys.executable, "-m", "penstock.local.tools.maven", str(folder)]
    command += ["--transitive"] if jars.transitive else []
    command += [
        f"--{option}={conf[key]}"
        for option, key in (
            ("repositories", "spark.jars.repositories"),
            ("ivy-settings", "spark.jars.ivySettings"),
        )
        if key in conf
    ]
    try:
        done = subprocess.run(
            [*command, *jars.coordinates],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(_remedy(jars, f"not within {_FETCH_SECONDS:.0f} s")) from error
    if done.returncode != 0:
        raise Refused(_remedy(jars, "\n".join(done.stderr.strip().splitlines()[-12:])))


def _remedy(jars: Jars, why: str) -> str:
    return (
        f"{jars.what} could not be fetched: {why}\n"
        "Behind a mirror, name it in spec.sparkConf (spark.jars.ivySettings or "
        "spark.jars.repositories); without a network, put the jars into a folder and name it in "
        f"{jars.variable}. They are: {', '.join(jars.coordinates)}"
        + (" and what these need" if jars.transitive else "")
    )
