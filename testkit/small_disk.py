"""A real volume that is small, and can be full: a tmpfs of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted file system of four megabytes: Spark keeps a hundred epochs of 16 kB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """Mounts it during the block. A test fails if that is not allowed: nothing replaces it."""
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "penstock-test", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if mounted.returncode != 0:
        pytest.fail(f"this test mounts a tmpfs and must run as root: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True, timeout=30)
