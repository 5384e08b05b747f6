"""The container engine: docker or podman, whichever works here."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from testkit import system_packages
from testkit.commands import run, say, works
from testkit.engine import podman
from testkit.engine.build_network import build_options
from testkit.errors import ClusterError
from testkit.paths import cache_dir
from testkit.tools.pins import published_node_image

_PROBE_SECONDS = 8
_PROBE_KEPT_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Engine:
    """A working engine, and the environment its commands (and kind) need."""

    name: str
    env: dict[str, str] = field(default_factory=dict)
    private: bool = False
    """Whether its storage is ours alone, so that cleaning up may take everything in it."""

    def run(self, *words: str | Path, timeout: float = 120) -> str:
        return run([self.name, *words], env=self.env, timeout=timeout)

    def feed(self, file: Path, *words: str | Path, timeout: float = 120) -> str:
        """Run a command of the engine that reads a file from its stdin."""
        return run([self.name, *words], env=self.env, timeout=timeout, stdin=file)

    def has_image(self, ref: str) -> bool:
        try:
            self.run("image", "inspect", ref, timeout=60)
        except ClusterError:
            return False
        return True

    def build(self, context: Path, dockerfile: Path, ref: str) -> None:
        """Build a Dockerfile, its layers cached by the engine."""
        words: list[str | Path] = ["build", "--tag", ref, "--file", dockerfile]
        if self.name == "podman":
            words += ["--layers", *build_options(cache_dir("engine"))]
        try:
            self.run(*words, context, timeout=1800)
        except ClusterError as error:
            raise ClusterError(f"building {ref} failed: {error}") from error

    def save(self, ref: str, archive: Path) -> None:
        """Write an image into an archive that any engine and containerd can read."""
        self.run("save", "--output", archive, ref, timeout=600)

    def images(self, pattern: str) -> list[str]:
        """References of the images whose name matches, the newest first."""
        wanted = ["--filter", f"reference={pattern}", "--format", "{{.Repository}}:{{.Tag}}"]
        return self.run("images", *wanted).split()

    def import_tree(self, archive: Path, ref: str, changes: Sequence[str] = ()) -> None:
        """Make an image of one layer out of a tar of a root filesystem."""
        options = [word for change in changes for word in ("--change", change)]
        self.run("import", *options, archive, ref, timeout=900)


@cache
def engine() -> Engine:
    """The engine of this machine; PENSTOCK_ENGINE=docker or podman overrides."""
    wanted = os.environ.get("PENSTOCK_ENGINE", "")
    if wanted not in ("", "docker", "podman"):
        raise ClusterError(f"PENSTOCK_ENGINE is {wanted!r}; it can be docker or podman")
    if (
        wanted != "podman"
        and system_packages.which("docker")
        and works(["docker", "info"], timeout=10)
    ):
        return Engine("docker")
    if wanted == "docker":
        raise ClusterError("docker does not answer (`docker info`): start it, or use podman")
    return _podman()


def _podman() -> Engine:
    system_packages.require(*system_packages.PODMAN)
    if os.geteuid() == 0 and system_packages.lean_host():
        found = Engine("podman", podman.private_settings(), private=True)
    else:
        found = Engine("podman", {"KIND_EXPERIMENTAL_PROVIDER": "podman"})
    try:
        found.run("info", timeout=60)
    except ClusterError:
        if not found.private:
            raise
        podman.forget_processes(found.run)
    return found


def registry_in_reach() -> bool:
    """Whether published images can be had here. PENSTOCK_OFFLINE=1 says no without asking.

    The answer "no" is remembered for some hours: asking costs seconds where nothing answers.
    """
    if os.environ.get("PENSTOCK_OFFLINE") == "1":
        return False
    remembered = cache_dir("engine") / "no-registry"
    if remembered.exists() and time.time() - remembered.stat().st_mtime < _PROBE_KEPT_SECONDS:
        return False
    try:
        run(
            [engine().name, "manifest", "inspect", published_node_image()],
            env=engine().env,
            timeout=_PROBE_SECONDS,
        )
    except ClusterError:
        say("no container registry in reach: images are made here from packages and Go modules")
        remembered.touch()
        return False
    remembered.unlink(missing_ok=True)
    return True
