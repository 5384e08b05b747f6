"""The paths of the checkout and of the cache, which holds everything that is built."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent


def cache_dir(*parts: str) -> Path:
    """A folder in the cache, created if missing. Deleting the whole cache is always safe."""
    root = os.environ.get("PENSTOCK_CACHE")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = str(Path(base) / "penstock")
    path = Path(root).resolve().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path
