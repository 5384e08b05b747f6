"""A session of pytest in a process of its own, to test the plugins in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testkit.paths import CHECKOUT

_WITHOUT = ("cacheprovider", "hypothesispytest", "asyncio")


def run_pytest(folder: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest in a folder, without the plugins of others, with these variables."""
    plugins = [each for name in _WITHOUT for each in ("-p", f"no:{name}")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options],
        cwd=folder,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": "", **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
