"""The little that kind expects of the machine itself, and how it is put back."""

import contextlib
from pathlib import Path

from e2e.cluster.paths import cache_dir

_MODULES = Path("/lib/modules")


def prepare_host() -> None:
    """kind mounts /lib/modules into its nodes; a kernel without modules has no such folder."""
    if not _MODULES.is_dir():
        _MODULES.mkdir()
        _made().touch()


def restore_host() -> None:
    """Take back what ``prepare_host`` did."""
    if _made().exists():
        with contextlib.suppress(OSError):
            _MODULES.rmdir()
        _made().unlink()


def _made() -> Path:
    return cache_dir("cluster") / "made-lib-modules"
