"""The folder for what `penstock run` downloads or computes once. Deleting it is always safe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.local.errors import CommandError

CHOOSE_CACHE = "set XDG_CACHE_HOME to a folder that you can write to"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """~/.cache/penstock/run, or in the user's XDG_CACHE_HOME.

    Raises CommandError if there is neither.
    """
    base = environment.get("XDG_CACHE_HOME") or str(_home() / ".cache")
    return Path(base) / "penstock" / "run"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:  # a user without a name, as in a container, and without HOME
        raise CommandError(f"you have no home folder: {CHOOSE_CACHE}", code=2) from error
