"""A Git repository on this machine, from which a GitOps tool reads manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from testkit.commands import run

# Only what the repository itself says: a user may sign commits, or replace addresses.
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
_AUTHOR = ("-c", "user.name=test", "-c", "user.email=test@example.com")


class GitRepository:
    """Its branch main, with manifests as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        """Where a tool on this machine reads it."""
        return self._folder.as_uri()

    def commit(self, path: str, content: dict[str, Any] | None) -> None:
        """Commits one file with a manifest, or the removal of the file."""
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            file.unlink()
        else:
            file.write_text(yaml.safe_dump(content))
        self._git("add", "--all")
        self._git(*_AUTHOR, "commit", "--quiet", f"--message={path}")

    def _git(self, *words: str) -> None:
        run(["git", *words], cwd=self._folder, env=_NO_SETTINGS)
