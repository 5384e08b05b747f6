"""Folders that nobody can write, root neither: bind mounts of themselves."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from testkit.wait import wait_for


@contextmanager
def read_only(*folders: Path) -> Iterator[None]:
    """Makes them read-only during the block. A test fails if that is not allowed."""
    with ExitStack() as mounted:
        for folder in folders:
            _run("mount", "--bind", str(folder), str(folder))
            mounted.callback(_run, "umount", "--lazy", str(folder))
            _make_read_only(folder)
        yield


def _make_read_only(folder: Path) -> None:
    """Between two writes: with a file that is open for writing the mount is busy."""
    command = ["mount", "-o", "remount,bind,ro", str(folder)]
    wait_for(
        f"no open file in {folder}",
        lambda: (
            subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0
        ),
        every=0.01,
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        pytest.fail(f"this test mounts folders and must run as root: {done.stderr.strip()}")
