"""Checks that this machine has a Java that Spark runs on."""

from __future__ import annotations

import os
import re
import subprocess

from penstock.local.errors import CommandError

MINIMUM_VERSION = 17
_INSTALL = (
    f"Spark needs Java {MINIMUM_VERSION} or newer: install it (Debian: openjdk-17-jre-headless; "
    "macOS: temurin), or set JAVA_HOME"
)


def java_command() -> str:
    """The java command that starts the driver's JVM."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def require_java() -> str:
    """The java command; raises CommandError, with what to install, if it is missing or too old."""
    command = java_command()
    try:
        output = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(f"{command} does not run here. {_INSTALL}", code=2) from error
    version = major_version(output)
    if version is not None and version < MINIMUM_VERSION:
        raise CommandError(f"{command} is Java {version}. {_INSTALL}", code=2)
    return command


def major_version(output: str) -> int | None:
    """17 for `version "17.0.15"`, 8 for `version "1.8.0_402"`; None if no version is found."""
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found[1]) if found else None
