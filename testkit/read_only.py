"""Folders that nobody can write, root neither: bind mounts of themselves."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


@contextmanager
def read_only(*folders: Path) -> Iterator[None]:
    """Makes them read-only during the block. A test fails if that is not allowed."""
    with ExitStack() as mounted:
        for folder in folders:
            _run("mount", "--bind", str(folder), str(folder))
            mounted.callback(_run, "umount", "--lazy", str(folder))
            _run("mount", "-o", "remount,bind,ro", str(folder))
        yield


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        pytest.fail(f"this test mounts folders and must run as root: {done.stderr.strip()}")
