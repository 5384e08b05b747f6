"""The folder for what `penstock run` downloads or computes once. Deleting it is always safe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """~/.cache/penstock/run, or in the user's XDG_CACHE_HOME."""
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock" / "run"
