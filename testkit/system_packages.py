"""What the machine must have, and how it gets it: by apt-get on Debian as root, else we name it."""

import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testkit.commands import run, say
from testkit.errors import ClusterError

_SBIN = ("/usr/sbin", "/sbin", "/usr/lib/podman")


@dataclass(frozen=True)
class Need:
    """One command this package runs."""

    command: str
    package: str | None
    """The Debian package that has it; None where Debian 12's own is of no use."""
    purpose: str


NEEDS = {
    need.command: need
    for need in (
        Need("go", None, "compiles Kubernetes and its tools (Go 1.24 or newer)"),
        Need("openssl", "openssl", "makes keys for the stand-alone API server"),
        Need("mvn", "maven", "fetches the jars of Kafka and of Spark's connector"),
        Need("java", "openjdk-17-jre-headless", "runs Kafka and Spark on this machine"),
        Need("javac", "openjdk-17-jdk-headless", "builds the example of a data source in Java"),
        Need("podman", "podman", "runs the cluster's nodes and builds images"),
        Need("runc", "runc", "runs containers where crun may not"),
        Need("netavark", "netavark", "the nodes' network"),
        Need("aardvark-dns", "aardvark-dns", "names on the nodes' network"),
        Need("conmon", "conmon", "watches over the nodes' containers"),
        Need("iptables", "iptables", "the nodes' network"),
        Need("mmdebstrap", "mmdebstrap", "makes base images where no registry is in reach"),
        Need("ip", "iproute2", "looks at the nodes' network"),
    )
}

PODMAN = ("podman", "runc", "netavark", "aardvark-dns", "conmon", "iptables", "ip")
JAVA = ("mvn", "java", "javac")
GO = ("go",)
BASE_IMAGES = ("mmdebstrap",)


def which(command: str) -> Path | None:
    """Where a command is, also in the folders a user's PATH leaves out."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *_SBIN])
    found = shutil.which(command, path=path)
    return Path(found) if found else None


def missing(*commands: str) -> list[Need]:
    """Those of the needed commands that this machine does not have."""
    return [NEEDS[command] for command in commands if which(command) is None]


def require(*commands: str) -> None:
    """See that commands are there, installing them where we may; else say what to install."""
    gaps = missing(*commands)
    if not gaps:
        return
    packages = [need.package for need in gaps if need.package]
    if packages and can_install():
        _apt_install(packages)
        gaps = missing(*commands)
    if gaps:
        raise ClusterError("this machine lacks:\n" + "\n".join(advice(need) for need in gaps))


def advice(need: Need) -> str:
    """One line for a person: what is missing, what for, how to get it."""
    how = f"Debian: apt-get install {need.package}" if need.package else "see its own site"
    return f"  {need.command}: {need.purpose} ({how})"


def can_install() -> bool:
    """Whether we may install packages here: root on Debian."""
    return os.geteuid() == 0 and is_debian() and shutil.which("apt-get") is not None


@cache
def is_debian() -> bool:
    """Whether this is Debian itself, whose package names we know."""
    try:
        release = Path("/etc/os-release").read_text()
    except OSError:
        return False
    return any(line.strip() == "ID=debian" for line in release.splitlines())


def _apt_install(packages: list[str]) -> None:
    say(f"installing {' '.join(packages)} with apt-get")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    hint = "Check that apt-get works here: `apt-get update`."
    run(["apt-get", "update", "-qq"], env=quiet, timeout=300, hint=hint)
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    run([*install, *packages], env=quiet, timeout=900, hint=hint)


def lean_host() -> bool:
    """Whether this is a machine without systemd, as containers and small virtual machines are.

    There the container engine's defaults (systemd cgroups, high limits, crun) do not work.
    """
    return not Path("/run/systemd/system").is_dir()
