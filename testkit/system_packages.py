"""The commands that the machine needs: installed with apt-get as root on Debian, else named."""

import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testkit.commands import print_progress, run
from testkit.errors import ClusterError
from testkit.file_lock import file_lock

_SBIN = ("/usr/sbin", "/sbin", "/usr/lib/podman")


@dataclass(frozen=True)
class Need:
    command: str
    package: str | None
    """The Debian package with the command; None if the version in Debian 12 is too old."""
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
        Need("runc", "runc", "runs containers where crun cannot"),
        Need("netavark", "netavark", "the nodes' network"),
        Need("aardvark-dns", "aardvark-dns", "resolves names on the nodes' network"),
        Need("conmon", "conmon", "supervises the nodes' containers"),
        Need("iptables", "iptables", "the nodes' network"),
        Need("mmdebstrap", "mmdebstrap", "makes base images when no registry is reachable"),
        Need("ip", "iproute2", "inspects the nodes' network"),
        Need("cc", "gcc", "builds the clock that a test sets"),
    )
}

PODMAN = ("podman", "runc", "netavark", "aardvark-dns", "conmon", "iptables", "ip")
JAVA = ("mvn", "java", "javac")
BASE_IMAGES = ("mmdebstrap",)


def which(command: str) -> Path | None:
    """The path of a command, also in folders that are not on a user's PATH."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *_SBIN])
    found = shutil.which(command, path=path)
    return Path(found) if found else None


def missing(*commands: str) -> list[Need]:
    return [NEEDS[command] for command in commands if which(command) is None]


def require(*commands: str) -> None:
    """Installs missing commands if possible; otherwise the error says what to install."""
    if not missing(*commands):
        return
    with apt_lock():
        gaps = missing(*commands)
        packages = [need.package for need in gaps if need.package]
        if packages and can_install():
            _apt_install(packages)
            gaps = missing(*commands)
    if gaps:
        raise ClusterError("This machine lacks:\n" + "\n".join(advice(need) for need in gaps))


def advice(need: Need) -> str:
    """One line about a missing command: its purpose, and how to install it."""
    how = f"Debian: apt-get install {need.package}" if need.package else "see its website"
    return f"  {need.command}: {need.purpose} ({how})"


def docker_answers() -> bool:
    """Whether docker is installed and its daemon runs."""
    try:
        return which("docker") is not None and bool(run(["docker", "info"], timeout=10))
    except ClusterError:
        return False


def can_install() -> bool:
    """Whether packages can be installed here: as root on Debian."""
    return os.geteuid() == 0 and is_debian() and shutil.which("apt-get") is not None


@cache
def is_debian() -> bool:
    """Whether this is Debian itself: the package names are Debian's."""
    try:
        release = Path("/etc/os-release").read_text()
    except OSError:
        return False
    return any(line.strip() == "ID=debian" for line in release.splitlines())


def apt_lock() -> AbstractContextManager[None]:
    """apt-get fails while another one runs, so a caller waits for those of testkit."""
    return file_lock("apt")


def _apt_install(packages: list[str]) -> None:
    print_progress(f"installing {' '.join(packages)} with apt-get")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    hint = "Check that apt-get works on this machine: run `apt-get update`."
    run(["apt-get", "update", "-qq"], env=quiet, timeout=300, hint=hint)
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    run([*install, *packages], env=quiet, timeout=900, hint=hint)


def has_no_systemd() -> bool:
    """Whether this machine has no systemd, as in a container or a small virtual machine.

    The container engine's defaults (systemd cgroups, high limits, crun) do not work there.
    """
    return not Path("/run/systemd/system").is_dir()
