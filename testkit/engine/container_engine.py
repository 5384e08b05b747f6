"""The container engine of this machine: docker or podman."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from testkit import system_packages
from testkit.commands import run
from testkit.engine import podman
from testkit.engine.build_network import build_options
from testkit.errors import ClusterError
from testkit.file_lock import file_lock
from testkit.paths import cache_dir


@dataclass(frozen=True)
class ContainerEngine:
    """A working engine, and the environment that its commands and kind need."""

    name: str
    env: dict[str, str] = field(default_factory=dict)
    private: bool = False
    """Whether only testkit uses its storage, so that cleaning up can remove everything in it."""

    def run(self, *words: str | Path, timeout: float = 120) -> str:
        return run([self.name, *words], env=self.env, timeout=timeout)

    def feed(self, file: Path, *words: str | Path, timeout: float = 120) -> str:
        """Runs a command of the engine with a file as its stdin."""
        return run([self.name, *words], env=self.env, timeout=timeout, stdin=file)

    def has_image(self, ref: str) -> bool:
        try:
            self.run("image", "inspect", ref, timeout=60)
        except ClusterError:
            return False
        return True

    def label(self, ref: str, name: str) -> str:
        """The value of a label of an image that is here; empty without it."""
        template = f'{{{{index .Config.Labels "{name}"}}}}'
        return self.run("image", "inspect", f"--format={template}", ref).strip()

    def build(
        self, context: Path, dockerfile: Path, ref: str, *, target: str = "", **arguments: str
    ) -> None:
        """Builds a Dockerfile, or a stage of it, with these values of its ARGs.

        The engine caches the layers.
        """
        words: list[str | Path] = ["build", "--tag", ref, "--file", dockerfile]
        words += [f"--target={target}"] if target else []
        words += [f"--build-arg={name}={value}" for name, value in arguments.items()]
        if self.name == "podman":
            words += ["--layers", *build_options(cache_dir("engine"))]
        try:
            with file_lock("images", shared=True):
                self.run(*words, context, timeout=1800)
        except ClusterError as error:
            raise ClusterError(f"building {ref} failed: {error}") from error

    def save(self, ref: str, archive: Path) -> None:
        """Writes an image to an archive that any engine and containerd can read."""
        self.run("save", "--output", archive, ref, timeout=600)

    def images(self, pattern: str) -> list[str]:
        """The references of the images whose name matches, the newest first."""
        wanted = ["--filter", f"reference={pattern}", "--format", "{{.Repository}}:{{.Tag}}"]
        return self.run("images", *wanted).split()

    def remove_images(self, refs: Sequence[str]) -> None:
        """Removes images, except those that a container uses, while no image is built.

        A build looks through all images for layers to use again, and podman's fails when one of
        them goes away meanwhile (buildah's issue 5674).
        """
        with file_lock("images"):
            for ref in refs:
                with contextlib.suppress(ClusterError):
                    self.run("rmi", ref)

    def import_tree(self, archive: Path, ref: str, changes: Sequence[str] = ()) -> None:
        """Makes an image with one layer from a tar of a root filesystem."""
        options = [word for change in changes for word in ("--change", change)]
        self.run("import", *options, archive, ref, timeout=900)


@cache
def engine() -> ContainerEngine:
    """The engine of this machine, or the one that PENSTOCK_ENGINE names."""
    wanted = os.environ.get("PENSTOCK_ENGINE", "")
    if wanted not in ("", "docker", "podman"):
        raise ClusterError(f"PENSTOCK_ENGINE is {wanted!r}. Set it to docker or podman.")
    if wanted != "podman" and system_packages.docker_answers():
        return ContainerEngine("docker")
    if wanted == "docker":
        raise ClusterError("docker does not answer (`docker info`). Start it, or use podman.")
    return _podman()


def _podman() -> ContainerEngine:
    system_packages.require(*system_packages.PODMAN)
    if os.geteuid() == 0 and system_packages.has_no_systemd():
        found = ContainerEngine("podman", podman.private_settings(), private=True)
    else:
        found = ContainerEngine("podman", {"KIND_EXPERIMENTAL_PROVIDER": "podman"})
    try:
        found.run("info", timeout=60)
    except ClusterError:
        if not found.private:
            raise
        podman.clear_stale_records(found.run)
    return found
