"""Programs from Debian packages, unpacked and not installed: none of their services starts."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from testkit import system_packages
from testkit.commands import print_progress, run
from testkit.content_hash import build_once
from testkit.errors import ClusterError
from testkit.paths import cache_dir

_HINT = "Needs Debian's packages: try `apt-get update`."
_NEEDS_OF_REDIS = ("redis-tools", "libatomic1", "libjemalloc2", "liblzf1")


def promtool() -> Path:
    """Prometheus' own checker of rules, and the tests of them."""
    return debian_program("prometheus", "promtool")


def prometheus() -> Path:
    return debian_program("prometheus", "prometheus")


def container_registry() -> Path:
    """The registry of the CNCF's project Distribution."""
    return debian_program("docker-registry", "docker-registry")


def redis_server() -> Path:
    """Redis, to be started with `its_libraries`."""
    return debian_program("redis-server", "redis-server", *_NEEDS_OF_REDIS)


def debian_program(package: str, program: str, *needs: str) -> Path:
    """The path of a program: this machine's own, or else one from a Debian package.

    `needs` are other packages, without which the program does not start.
    """
    installed = system_packages.which(program)
    if installed is not None:
        return installed
    if not system_packages.is_debian():
        raise ClusterError(f"This machine lacks {program}: install {package}, see its website.")
    folder = cache_dir("tools") / f"debian-{package}"
    return build_once(folder, partial(_unpack, (package, *needs))) / "usr" / "bin" / program


def its_libraries(program: Path) -> dict[str, str]:
    """The environment in which an unpacked program finds the libraries beside it."""
    folders = sorted((program.parents[1] / "lib").glob("*-linux-gnu"))
    return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


def _unpack(packages: Sequence[str], folder: Path) -> None:
    print_progress(f"unpacking {' '.join(packages)} from Debian")
    download = ["apt-get", "download", "-qq", *packages]
    with system_packages.apt_lock():
        try:
            run(download, cwd=folder, timeout=300)
        except ClusterError:  # the lists of packages are missing or old
            run(["apt-get", "update", "-qq"], timeout=300, hint=_HINT)
            run(download, cwd=folder, timeout=300, hint=_HINT)
    for archive in folder.glob("*.deb"):
        run(["dpkg-deb", "--extract", archive, folder], timeout=120)
        archive.unlink()
