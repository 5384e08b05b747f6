"""Compiles the data source for Kafka into this checkout's package, for `penstock run`.

The wheel of a release has it. As `penstock run`, this needs a Java runtime only: no JDK, no Maven.
"""

from __future__ import annotations

import sys
from functools import partial

from demo.laptop import find_java
from penstock.command_line import CommandError
from penstock.local.tools.jars import CONNECTOR, DATA_SOURCE, Jars, jar_folder
from testkit.errors import ClusterError
from testkit.kafka.jars import compile_connector

# Only what the compiler looks at: `penstock run` has no checkpoint in an object store. The versions
# are those of images/spark/s3a.xml; test_jars.py compares them.
S3A = Jars(
    name="s3a",
    description="Hadoop's S3A",
    mebibytes=2,
    coordinates=(
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:auth:2.35.4",
        "software.amazon.awssdk:identity-spi:2.35.4",
        "software.amazon.awssdk:utils:2.35.4",
    ),
    transitive=False,
    variable="PENSTOCK_S3A_JARS",
)
# Of connector/ecj.xml.
COMPILER = Jars(
    name="ecj",
    description="the Eclipse compiler for Java",
    mebibytes=3,
    coordinates=("org.eclipse.jdt:ecj:3.40.0",),
    transitive=False,
    variable="PENSTOCK_ECJ_JARS",
)


def main() -> int:
    """A problem is printed, and the exit code is 1."""
    folder = partial(jar_folder, conf=None, print_message=print)
    try:
        find_java()
        (compiler,) = folder(COMPILER).glob("*.jar")
        compile_connector(DATA_SOURCE, folder(CONNECTOR), folder(S3A), compiler=compiler)
    except (CommandError, ClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
