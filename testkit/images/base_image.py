"""Builds the Debian base image under the name in the Dockerfiles, if no registry is reachable."""

import shlex
from functools import partial
from pathlib import Path

from testkit import system_packages
from testkit.commands import print_progress, run
from testkit.content_hash import build_once, content_hash
from testkit.engine.container_engine import engine
from testkit.images.registry import registry_is_reachable
from testkit.paths import cache_dir

# What the published image sets too: neither documentation nor apt's caches get into a layer.
_DPKG = [f"path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "i18n", "info")]
_APT = (
    'APT::Install-Recommends "false";',
    'APT::Keep-Downloaded-Packages "false";',
    'Dir::Cache::pkgcache "";',
    'Dir::Cache::srcpkgcache "";',
)
_LABEL = "penstock.dev/base"


def base_ref(release: str) -> str:
    """The full reference of `FROM debian:RELEASE-slim`."""
    return f"docker.io/library/debian:{release}-slim"


def ensure_base(release: str) -> str:
    """Builds the base image if it is missing. With a registry the engine pulls it itself."""
    ref, key = base_ref(release), content_hash(release, _DPKG, _APT)
    # An image without the label was pulled.
    is_here = engine().has_image(ref) and engine().label(ref, _LABEL) in ("", key)
    if not is_here and not registry_is_reachable():
        engine().import_tree(_debian_tree(release, key), ref, ["CMD bash", f"LABEL {_LABEL}={key}"])
    return ref


def _debian_tree(release: str, key: str) -> Path:
    """A tar of a minimal Debian, kept in the cache."""
    system_packages.require(*system_packages.BASE_IMAGES)
    target = cache_dir("debian") / f"{release}-{key}"
    return build_once(target, partial(_debootstrap, release)) / "root.tar"


def _debootstrap(release: str, folder: Path) -> None:
    print_progress(f"making a minimal Debian {release}")
    command = [
        "mmdebstrap",
        "--variant=minbase",
        # At the end: mmdebstrap itself installs from what apt has downloaded.
        f"--customize-hook=printf '%s\\n' {shlex.join(_APT)} > $1/etc/apt/apt.conf.d/99-slim",
        *(f"--dpkgopt={option}" for option in _DPKG),
        release,
        str(folder / "root.tar"),
    ]
    run(
        command,
        timeout=900,
        hint="Needs access to Debian's packages: try `apt-get update`. On another distribution "
        "make a container registry reachable instead.",
    )
