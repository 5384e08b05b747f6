"""The jars that pyspark does not contain: Spark's Kafka connector, and a Kafka broker.

Downloaded once, by the resolver inside Spark (maven.py), and kept in the user's cache. The versions
are those of images/spark/pom.xml and testkit/kafka/image/pom.xml; test_jars.py compares them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.api.v1alpha1 import StreamSpec
from penstock.command_line import CommandError
from penstock.driver.background_threads import repeat_in_background
from penstock.local.errors import refusing
from penstock.local.tools.maven import needs_password
from penstock.local.workspace import CHOOSE_CACHE, cache_folder

_DOWNLOAD_SECONDS = 600.0
_CONNECTOR_NAME = "spark-sql-kafka-0-10_"
_MEBIBYTE = 2**20
_BAR_WIDTH = 30
_BAR_SECONDS = 0.5


@dataclass(frozen=True)
class Jars:
    """Jars that are downloaded together."""

    name: str
    description: str
    mebibytes: int
    """About what is downloaded."""
    coordinates: tuple[str, ...]
    """Maven coordinates, group:artifact:version."""
    transitive: bool
    """Whether to download their dependencies too."""
    variable: str
    """The environment variable that names a folder with the jars, for use without a network."""


CONNECTOR = Jars(
    name="spark-connector",
    description="Spark's Kafka connector and PostgreSQL's driver",
    mebibytes=11,
    # pyspark contains their dependencies; an older copy would only hide its newer ones. The token
    # provider is not in Maven for every version of Spark: this one runs with 4.2.0.
    coordinates=(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.12.1",
        "org.postgresql:postgresql:42.7.14",
    ),
    transitive=False,
    variable="PENSTOCK_CONNECTOR_JARS",
)
BROKER = Jars(
    name="kafka-broker",
    description="a Kafka broker",
    mebibytes=45,
    coordinates=("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
    variable="PENSTOCK_KAFKA_JARS",
)


# Penstock's own data source, which needs Spark's connector. A wheel has it; in a checkout it is
# there once `make data-source` has compiled it.
DATA_SOURCE = Path(__file__).with_name("penstock-kafka.jar")


def kafka_class_path(
    class_path: str,
    spec: StreamSpec,
    print_message: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """What a stream with Kafka needs beyond the class path: Spark's connector, and the data source.

    Raises CommandError, with what to do, if the one cannot be downloaded or the other is not there.
    """
    parts: list[str] = []
    if not _is_on(class_path, _CONNECTOR_NAME):
        folder = jar_folder(CONNECTOR, spec.spark_conf, print_message, environment)
        parts.append(f"{folder}/*")
    if not _is_on(os.pathsep.join([class_path, *parts]), DATA_SOURCE.name):
        if not DATA_SOURCE.exists():
            raise CommandError(
                f"{DATA_SOURCE.name}, with which Penstock reads and writes Kafka, is not there: "
                "run make data-source in a checkout, or install the wheel of a release",
                code=2,
            )
        parts.append(str(DATA_SOURCE))
    return parts


def _is_on(class_path: str, name: str) -> bool:
    """Whether the class path has a jar with this in its name."""
    parts = [Path(part) for part in class_path.split(os.pathsep) if part]
    jars = (jar for part in parts for jar in part.parent.glob(part.name.replace("*", "*.jar")))
    return any(name in jar.name for jar in jars)


def jar_folder(
    jars: Jars,
    conf: Mapping[str, str] | None,
    print_message: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> Path:
    """The folder with these jars, after a download if necessary.

    `conf` is spec.sparkConf, which may name a mirror; None for a caller without a spec to edit.
    Raises CommandError, with what to do, if they cannot be downloaded.
    """
    named = environment.get(jars.variable)
    if named:
        if not any(Path(named).glob("*.jar")):
            raise CommandError(
                f"{jars.variable} is set to {named}, a folder without jars: correct or unset it",
                code=2,
            )
        return Path(named)
    key = hashlib.sha256(" ".join(jars.coordinates).encode()).hexdigest()[:12]
    target = cache_folder(environment) / f"{jars.name}-{key}"
    if not target.is_dir():
        print_message(f"downloading {jars.description} ({jars.mebibytes} MB) to {target}")
        with refusing(target.parent, CHOOSE_CACHE):
            _fill(target, lambda draft: _download(jars, conf, draft, environment))
    return target


def _fill(target: Path, download: Callable[[Path], None]) -> None:
    """Creates the folder with what is downloaded; an incomplete one is never there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        download(draft)
        _move(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move(draft: Path, target: Path) -> None:
    """Renames the whole folder; does nothing if another process was faster."""
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _download(
    jars: Jars, conf: Mapping[str, str] | None, folder: Path, environment: Mapping[str, str]
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-ivy-") as ivy,
        download_bar(Path(ivy) / "cache", jars.mebibytes),
    ):
        reason = _resolve(jars, conf or {}, folder, ivy)
    if reason:
        raise CommandError(
            f"cannot download {jars.description}: {reason}\n"
            + " ".join(_remedies(jars, has_spec=conf is not None, environment=environment)),
            code=2,
        )


def _resolve(jars: Jars, conf: Mapping[str, str], folder: Path, ivy: str) -> str:
    """Downloads them; returns why that was not possible, or an empty text."""
    command = [sys.executable, "-m", "penstock.local.tools.maven", str(folder), f"--ivy={ivy}"]
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
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {_DOWNLOAD_SECONDS:.0f} s"
    if done.returncode == 0:
        return ""
    return "\n".join(done.stderr.strip().splitlines()[-12:]) or f"exit code {done.returncode}"


def _remedies(jars: Jars, *, has_spec: bool, environment: Mapping[str, str]) -> Iterator[str]:
    if has_spec:
        yield (
            "To use a mirror, set spark.jars.ivySettings or spark.jars.repositories in "
            "spec.sparkConf."
        )
    if needs_password(environment):
        yield (
            "The proxy's URL has a user and a password, which Java does not take from there: "
            "use a proxy without them."
        )
    else:
        yield "Behind a proxy, set HTTPS_PROXY, HTTP_PROXY and NO_PROXY."
    yield (
        "If the proxy has a certificate of its own, set JAVA_TOOL_OPTIONS to "
        "-Djavax.net.ssl.trustStore=FILE with a store that has it."
    )
    yield (
        "Without a network, copy the jars to a folder and set the environment variable "
        f"{jars.variable} to it. The jars are: {', '.join(jars.coordinates)}"
        + (" and their dependencies" if jars.transitive else "")
    )


@contextlib.contextmanager
def download_bar(folder: Path, mebibytes: int) -> Iterator[None]:
    """Draws a bar during the block, if stderr is a terminal; `mebibytes` is about the total."""
    if not sys.stderr.isatty():
        yield
        return

    def draw() -> None:
        sys.stderr.write(f"\r{bar(_size(folder), mebibytes)}")
        sys.stderr.flush()

    try:
        with repeat_in_background(draw, _BAR_SECONDS):
            yield
    finally:
        sys.stderr.write("\r\x1b[K")


def bar(size: int, mebibytes: int) -> str:
    """The bar for this many bytes, full a little early or late: the total is rounded. Pure.

    >>> print(bar(5 * 2**20, 10))
      ━━━━━━━━━━━━━━━╺╺╺╺╺╺╺╺╺╺╺╺╺╺╺ 5 of 10 MB
    >>> print(bar(11 * 2**20, 10))
      ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 11 of 10 MB
    """
    share = min(1.0, size / (mebibytes * _MEBIBYTE))
    done = round(share * _BAR_WIDTH)
    return f"  {'━' * done}{'╺' * (_BAR_WIDTH - done)} {size / _MEBIBYTE:.0f} of {mebibytes} MB"


def _size(folder: Path) -> int:
    """What is in the folder; files may come and go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
