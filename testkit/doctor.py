"""Looks at the machine and says what the tests will find, before they spend time finding out."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from testkit import system_packages
from testkit.commands import run, works
from testkit.errors import ClusterError
from testkit.paths import cache_dir

_GO_LEAST = (1, 24)
_DISK_LEAST = 20
_MEMORY_LEAST = 6


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    what: str
    good: bool
    words: str
    """What was found; where it is not good, what to do."""


def examine() -> list[Finding]:
    """Everything a full test run needs, each looked at once."""
    checks: Sequence[Callable[[], Finding]] = (_engine, _go, _java, _small_tools, _disk, _memory)
    return [check() for check in checks]


def report(findings: Sequence[Finding]) -> str:
    """Findings for a person to read."""
    return "\n".join(f"{'✓' if f.good else '✗'} {f.what}: {f.words}" for f in findings)


def _engine() -> Finding:
    wanted = os.environ.get("PENSTOCK_ENGINE", "")
    if (
        wanted != "podman"
        and system_packages.which("docker")
        and works(["docker", "info"], timeout=10)
    ):
        return Finding("container engine", True, "docker")
    return _installed("container engine", system_packages.PODMAN)


def _go() -> Finding:
    if system_packages.which("go") is None:
        return Finding("Go", False, "not found: install Go 1.24 or newer")
    return go_finding(run(["go", "env", "GOVERSION"]))


def go_finding(version: str) -> Finding:
    """What a version of Go, as it words it itself, means to us."""
    found = re.match(r"go(\d+)\.(\d+)", version.strip())
    if found is None:
        return Finding("Go", False, f"cannot read its version {version!r}: install Go 1.24")
    if (int(found[1]), int(found[2])) < _GO_LEAST:
        return Finding("Go", False, f"{version.strip()} is too old: install Go 1.24 or newer")
    return Finding("Go", True, version.strip())


def _java() -> Finding:
    return _installed("Java and Maven", system_packages.JAVA)


def _small_tools() -> Finding:
    return _installed("small tools", (*system_packages.BASE_IMAGES, "openssl"))


def _installed(what: str, commands: Sequence[str]) -> Finding:
    gaps = system_packages.missing(*commands)
    if not gaps:
        return Finding(what, True, ", ".join(commands))
    return gaps_finding(what, gaps, system_packages.can_install())


def gaps_finding(what: str, gaps: Sequence[system_packages.Need], installs: bool) -> Finding:
    """Missing commands are no problem where the first use installs them."""
    if installs and all(need.package for need in gaps):
        names = ", ".join(need.command for need in gaps)
        return Finding(what, True, f"{names} will be installed with apt-get when first needed")
    return Finding(
        what, False, "missing\n" + "\n".join(system_packages.advice(need) for need in gaps)
    )


def _disk() -> Finding:
    free = shutil.disk_usage(cache_dir()).free >> 30
    good = free >= _DISK_LEAST or (cache_dir() / "podman").exists()
    advice = "" if good else f": needs {_DISK_LEAST}; choose another place with PENSTOCK_CACHE"
    return Finding("disk", good, f"{free} GiB free at {cache_dir()}{advice}")


def _memory() -> Finding:
    try:
        words = Path("/proc/meminfo").read_text()
    except OSError as error:
        raise ClusterError("a test cluster needs Linux (/proc/meminfo is missing)") from error
    available = int(re.findall(r"MemAvailable:\s+(\d+)", words)[0]) >> 20
    good = available >= _MEMORY_LEAST
    advice = "" if good else f": the whole test run needs {_MEMORY_LEAST}"
    return Finding("memory", good, f"{available} GiB available{advice}")
