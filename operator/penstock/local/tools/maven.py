"""Maven coordinates to jars in a folder, through the resolver inside Spark.

A process of its own, since the resolver is talkative and pyspark knows one JVM at a time:
`python -m penstock.local.tools.maven FOLDER COORDINATE...`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from penstock.driver.jvm import Jvm

_HEAP_MEBIBYTES = 512
# Spark leaves Scala out of what it resolves, since it has it (MavenUtils.addExclusionRules).
_SCALA = "scala-library-*.jar"


def main() -> int:
    """Leaves the jars in the folder; Spark's own exception tells what is missing."""
    parser = argparse.ArgumentParser(prog="penstock.local.tools.maven", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("coordinates", nargs="+")
    parser.add_argument("--transitive", action="store_true")
    parser.add_argument("--repositories")
    parser.add_argument("--ivy-settings")
    given = parser.parse_args()
    jvm = Jvm.launch(_HEAP_MEBIBYTES, "", "127.0.0.1")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-ivy-") as ivy:
            for jar in _resolved(jvm.gateway, given, ivy):
                shutil.copy(jar, given.folder)
    finally:
        jvm.end()
    if given.transitive:
        _add_scala(given.folder)
    return 0


def _resolved(gateway: Any, given: argparse.Namespace, ivy: str) -> list[Path]:
    jvm = gateway.jvm
    found = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
        given.transitive,
        None,
        ",".join(given.coordinates),
        given.repositories,
        ivy,
        jvm.scala.Option.apply(given.ivy_settings),
    )
    return [Path(found.apply(index)) for index in range(found.length())]


def _add_scala(folder: Path) -> None:
    import pyspark

    for jar in (Path(pyspark.__file__).parent / "jars").glob(_SCALA):
        shutil.copy(jar, folder)


if __name__ == "__main__":
    sys.exit(main())
