"""The Debian base image where no registry is in reach, under the name our Dockerfiles say."""

from collections.abc import Sequence
from pathlib import Path

from testkit import system_packages
from testkit.commands import run, say
from testkit.content_hash import build_once, content_hash
from testkit.engine.container_engine import engine, registry_in_reach
from testkit.paths import cache_dir
from testkit.tools.pins import debian_release

_UNREAD = ("doc", "man", "locale", "i18n", "info")


def base_ref() -> str:
    """What ``FROM debian:bookworm-slim`` means to an engine."""
    return f"docker.io/library/debian:{debian_release()}-slim"


def ensure_base() -> str:
    """See that the base image is there. Where a registry is in reach the engine pulls it itself."""
    ref = base_ref()
    if registry_in_reach() or engine().has_image(ref):
        return ref
    engine().import_tree(debian_tree([]), ref, ["CMD bash"])
    return ref


def debian_tree(packages: Sequence[str]) -> Path:
    """A tar of a small Debian with these packages, kept in the cache."""
    system_packages.require(*system_packages.BASE_IMAGES)
    key = content_hash(debian_release(), list(packages), list(_UNREAD))
    target = cache_dir("debian") / f"{debian_release()}-{key}"
    return build_once(target, lambda folder: _debootstrap(packages, folder)) / "root.tar"


def _debootstrap(packages: Sequence[str], folder: Path) -> None:
    say(f"making a Debian tree with {len(packages)} packages more than the least")
    command = [
        "mmdebstrap",
        "--variant=minbase",
        '--aptopt=Apt::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _UNREAD),
        *([f"--include={','.join(packages)}"] if packages else []),
        debian_release(),
        str(folder / "root.tar"),
    ]
    run(
        command,
        timeout=900,
        hint="Needs a way to Debian's packages: try `apt-get update`. On another distribution "
        "make a container registry reachable instead.",
    )
