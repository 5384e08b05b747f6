"""Builds the Debian base image under the name in the Dockerfiles, if no registry is reachable."""

from collections.abc import Sequence
from pathlib import Path

from testkit import system_packages
from testkit.commands import print_progress, run
from testkit.content_hash import build_once, content_hash
from testkit.engine.container_engine import engine, registry_is_reachable
from testkit.paths import cache_dir
from testkit.tools.pins import debian_release

_EXCLUDED_DOCS = ("doc", "man", "locale", "i18n", "info")


def base_ref() -> str:
    """The full reference of `FROM debian:bookworm-slim`."""
    return f"docker.io/library/debian:{debian_release()}-slim"


def ensure_base() -> str:
    """Builds the base image if it is missing. With a registry the engine pulls it itself."""
    ref = base_ref()
    if engine().has_image(ref) or registry_is_reachable():
        return ref
    engine().import_tree(debian_tree([]), ref, ["CMD bash"])
    return ref


def debian_tree(packages: Sequence[str]) -> Path:
    """A tar of a minimal Debian with these packages, kept in the cache."""
    system_packages.require(*system_packages.BASE_IMAGES)
    key = content_hash(debian_release(), list(packages), list(_EXCLUDED_DOCS))
    target = cache_dir("debian") / f"{debian_release()}-{key}"
    return build_once(target, lambda folder: _debootstrap(packages, folder)) / "root.tar"


def _debootstrap(packages: Sequence[str], folder: Path) -> None:
    print_progress(f"making a minimal Debian tree with {len(packages)} extra packages")
    command = [
        "mmdebstrap",
        "--variant=minbase",
        '--aptopt=Apt::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _EXCLUDED_DOCS),
        *([f"--include={','.join(packages)}"] if packages else []),
        debian_release(),
        str(folder / "root.tar"),
    ]
    run(
        command,
        timeout=900,
        hint="Needs access to Debian's packages: try `apt-get update`. On another distribution "
        "make a container registry reachable instead.",
    )
