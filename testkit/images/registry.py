"""Whether a container registry is in reach."""

import contextlib
import os
import time
from functools import cache
from pathlib import Path

from testkit.commands import print_progress
from testkit.engine.container_engine import engine
from testkit.errors import ClusterError
from testkit.file_lock import file_lock
from testkit.paths import cache_dir
from testkit.tools.pins import published_node_image

_PROBE_SECONDS = 8
_KEEP_ANSWER_SECONDS = 6 * 3600


def registry_is_reachable() -> bool:
    """Whether a container registry is reachable. PENSTOCK_OFFLINE=1 means no, without a request.

    A process asks once, so that all its images come the same way. The answer "no" is kept for six
    hours, because an unanswered request takes seconds.
    """
    with file_lock("registry"):  # parallel builds want to know at once
        return _is_reachable()


@cache
def _is_reachable() -> bool:
    if os.environ.get("PENSTOCK_OFFLINE") == "1":
        return False
    no_registry = cache_dir("engine") / "no-registry"
    if no_registry.exists() and time.time() - no_registry.stat().st_mtime < _KEEP_ANSWER_SECONDS:
        _print_why(no_registry)
        return False
    try:
        _ask_registry(published_node_image())
    except ClusterError as error:
        no_registry.write_text(str(error))
        _print_why(no_registry)
        return False
    no_registry.unlink(missing_ok=True)
    return True


def without_tag(ref: str) -> str:
    """A reference that has a digest, without its tag: `podman manifest` refuses both together."""
    name, at, digest = ref.partition("@")
    repository, colon, tag = name.rpartition(":")
    tagged = at and colon and "/" not in tag  # else the colon is that of a registry's port
    return f"{repository}@{digest}" if tagged else ref


@cache
def _print_why(no_registry: Path) -> None:
    """Says once why everything is built here, and how to have the registry asked again."""
    why = no_registry.read_text().strip().splitlines()
    print_progress(
        "no container registry is reachable: building all images here"
        + (f" ({why[-1]}; delete {no_registry} to ask again)" if why else "")
    )


def _ask_registry(ref: str) -> None:
    """Reads the manifest of an image from its registry; ClusterError if that fails."""
    if engine().name == "docker":
        engine().run("manifest", "inspect", ref, timeout=_PROBE_SECONDS)
        return
    # podman's `manifest inspect` refuses an image for one architecture, as a private mirror may
    # have it. `create` reads each, and leaves a list of this name also where it fails.
    probe = f"localhost/penstock/probe:{os.getpid()}"
    try:
        engine().run("manifest", "create", probe, without_tag(ref), timeout=_PROBE_SECONDS)
    finally:
        with contextlib.suppress(ClusterError):
            engine().run("manifest", "rm", probe, timeout=_PROBE_SECONDS)
