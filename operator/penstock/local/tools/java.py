"""Whether this machine has a Java that Spark runs on."""

from __future__ import annotations

import os
import re
import subprocess

from penstock.local.errors import Refused

LEAST = 17
_INSTALL = (
    f"Spark needs Java {LEAST} or newer: install one (Debian: openjdk-17-jre-headless; "
    "macOS: temurin), or let JAVA_HOME name it"
)


def java_command() -> str:
    """The java that the driver's JVM will be started with."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def require_java() -> str:
    """The command of a Java that is new enough; raises Refused, with what to install."""
    command = java_command()
    try:
        said = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(f"{command} does not run here. {_INSTALL}", code=2) from error
    version = major_version(said)
    if version is not None and version < LEAST:
        raise Refused(f"{command} is Java {version}. {_INSTALL}", code=2)
    return command


def major_version(said: str) -> int | None:
    """The 17 of `version "17.0.15"`, the 8 of `version "1.8.0_402"`; None of other words."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
