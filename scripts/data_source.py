"""Compiles the data source for Kafka into this checkout's package, for `penstock run`.

The wheel of a release has it. It needs a JDK, which `penstock run` does not, and no Maven.
"""

from __future__ import annotations

import sys

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


def main() -> int:
    """A problem is printed, and the exit code is 1."""
    try:
        compile_connector(
            DATA_SOURCE, *(jar_folder(jars, None, print) for jars in (CONNECTOR, S3A))
        )
    except (CommandError, ClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
