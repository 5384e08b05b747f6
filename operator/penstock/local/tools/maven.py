"""Resolves Maven coordinates to jars in a folder, with the resolver inside Spark.

Runs as a process of its own, because the resolver prints a lot and pyspark has one JVM per process:
`python -m penstock.local.tools.maven --ivy FOLDER FOLDER COORDINATE...`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from penstock.driver.jvm import Jvm, fast_start_options
from penstock.local.tools.proxies import proxy_options

_HEAP_MEBIBYTES = 512
# Spark excludes Scala from what it resolves, since it has it (MavenUtils.addExclusionRules).
_SCALA = "scala-library-*.jar"


def main() -> int:
    """Copies the jars to the folder; exits with Spark's message, which names what is missing."""
    parser = argparse.ArgumentParser(prog="penstock.local.tools.maven", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ivy", type=Path, required=True, help="for what Ivy downloads")
    parser.add_argument("coordinates", nargs="+")
    parser.add_argument("--transitive", action="store_true")
    parser.add_argument("--repositories")
    parser.add_argument("--ivy-settings")
    options = parser.parse_args()
    java_options = fast_start_options(proxy_options(os.environ))
    jvm = Jvm.launch(_HEAP_MEBIBYTES, "", "127.0.0.1", java_options)
    try:
        for jar in _resolve(jvm.gateway, options):
            shutil.copy(jar, options.folder)
    except Py4JJavaError as error:
        # The JVM has the text of the exception, and it ends here.
        sys.exit(str(error.java_exception.getMessage()))
    finally:
        jvm.end()
    if options.transitive:
        _add_scala(options.folder)
    return 0


def _resolve(gateway: Any, options: argparse.Namespace) -> list[Path]:
    jvm = gateway.jvm
    jars = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
        options.transitive,
        None,
        ",".join(options.coordinates),
        options.repositories,
        str(options.ivy),
        jvm.scala.Option.apply(options.ivy_settings),
    )
    return [Path(jars.apply(index)) for index in range(jars.length())]


def _add_scala(folder: Path) -> None:
    import pyspark

    for jar in (Path(pyspark.__file__).parent / "jars").glob(_SCALA):
        shutil.copy(jar, folder)


if __name__ == "__main__":
    sys.exit(main())
