"""Compiles the data source for Kafka into this checkout's package, for `penstock run`.

The wheel of a release has it. It needs a JDK, which `penstock run` does not.
"""

from __future__ import annotations

import sys

from penstock.local.errors import CommandError
from penstock.local.tools.jars import CONNECTOR, DATA_SOURCE, jar_folder
from testkit.errors import ClusterError
from testkit.kafka.jars import compile_connector


def main() -> int:
    """A problem is printed, and the exit code is 1."""
    try:
        compile_connector(jar_folder(CONNECTOR, None, print), DATA_SOURCE)
    except (CommandError, ClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
