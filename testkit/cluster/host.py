"""Records what kind and podman change on the machine itself, and restores it."""

import contextlib
from pathlib import Path

from testkit.paths import cache_dir

_MODULES = Path("/lib/modules")
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def prepare_host() -> None:
    """Creates /lib/modules if it is missing: kind mounts it into its nodes."""
    with contextlib.suppress(OSError):
        if _FORWARD.read_text().strip() == "0":
            _note("turned-on-forwarding").touch()  # podman turns it on for a network
    if not _MODULES.is_dir():
        _MODULES.mkdir()
        _note("made-lib-modules").touch()


def restore_host() -> None:
    if _note("turned-on-forwarding").exists():
        with contextlib.suppress(OSError):
            _FORWARD.write_text("0\n")
        _note("turned-on-forwarding").unlink()
    if _note("made-lib-modules").exists():
        with contextlib.suppress(OSError):
            _MODULES.rmdir()
        _note("made-lib-modules").unlink()


def _note(name: str) -> Path:
    return cache_dir("cluster") / name
