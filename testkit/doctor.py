"""Checks whether this machine has what the tests need, before a long run fails."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from testkit import system_packages
from testkit.commands import run
from testkit.errors import ClusterError
from testkit.paths import cache_dir

_GO_MINIMUM = (1, 24)
_DISK_MINIMUM_GIB = 20
_MEMORY_MINIMUM_GIB = 6


@dataclass(frozen=True)
class Finding:
    what: str
    good: bool
    message: str
    """What was found and, if it is not good, what to do."""


def examine() -> list[Finding]:
    """Checks everything that a full test run needs."""
    checks: Sequence[Callable[[], Finding]] = (_engine, _go, _java, _other_tools, _disk, _memory)
    return [check() for check in checks]


def lacking() -> dict[str, str]:
    """Why the tests of a marker cannot run on this machine, by marker; empty if all can."""
    needs = {"real": (_go(), _java()), "cluster": (_engine(), _go())}
    bad = {
        marker: [finding for finding in all_ if not finding.good] for marker, all_ in needs.items()
    }
    return {marker: report(findings) for marker, findings in bad.items() if findings}


def report(findings: Sequence[Finding]) -> str:
    return "\n".join(f"{'✓' if f.good else '✗'} {f.what}: {f.message}" for f in findings)


def _engine() -> Finding:
    wanted = os.environ.get("PENSTOCK_ENGINE", "")
    if wanted != "podman" and system_packages.docker_answers():
        return Finding("container engine", True, "docker")
    return _installed("container engine", system_packages.PODMAN)


def _go() -> Finding:
    if system_packages.which("go") is None:
        return Finding("Go", False, "not found. Install Go 1.24 or newer")
    return go_finding(run(["go", "env", "GOVERSION"]))


def go_finding(version: str) -> Finding:
    """Judges the output of `go env GOVERSION`."""
    found = re.match(r"go(\d+)\.(\d+)", version.strip())
    if found is None:
        return Finding("Go", False, f"unknown version {version!r}. Install Go 1.24 or newer")
    if (int(found[1]), int(found[2])) < _GO_MINIMUM:
        return Finding("Go", False, f"{version.strip()} is too old. Install Go 1.24 or newer")
    return Finding("Go", True, version.strip())


def _java() -> Finding:
    return _installed("Java and Maven", system_packages.JAVA)


def _other_tools() -> Finding:
    return _installed("other tools", (*system_packages.BASE_IMAGES, "openssl", "cc"))


def _installed(what: str, commands: Sequence[str]) -> Finding:
    missing = system_packages.missing(*commands)
    if not missing:
        return Finding(what, True, ", ".join(commands))
    return missing_finding(what, missing, system_packages.can_install())


def missing_finding(what: str, missing: Sequence[system_packages.Need], installs: bool) -> Finding:
    """Judges missing commands: good if their first use installs them."""
    if installs and all(need.package for need in missing):
        names = ", ".join(need.command for need in missing)
        return Finding(what, True, f"{names} will be installed with apt-get at their first use")
    return Finding(
        what, False, "missing\n" + "\n".join(system_packages.advice(need) for need in missing)
    )


def _disk() -> Finding:
    free = shutil.disk_usage(cache_dir()).free >> 30
    good = free >= _DISK_MINIMUM_GIB or (cache_dir() / "podman").exists()
    advice = "" if good else f". Needed: {_DISK_MINIMUM_GIB} GiB. Set PENSTOCK_CACHE"
    return Finding("disk", good, f"{free} GiB free at {cache_dir()}{advice}")


def _memory() -> Finding:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError as error:
        raise ClusterError("The test cluster needs Linux: /proc/meminfo is missing.") from error
    available = int(re.findall(r"MemAvailable:\s+(\d+)", text)[0]) >> 20
    good = available >= _MEMORY_MINIMUM_GIB
    advice = "" if good else f". A full test run needs {_MEMORY_MINIMUM_GIB} GiB"
    return Finding("memory", good, f"{available} GiB available{advice}")
