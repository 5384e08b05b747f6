"""The commands of `penstock` that read a cluster, as a person on call runs them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: str
    stderr: str

    @property
    def first_line(self) -> str:
        """What names the cause."""
        return self.stdout.partition("\n")[0]


@dataclass(frozen=True)
class PenstockCommand:
    """Runs the command on one cluster, in one namespace."""

    kubeconfig: Path
    namespace: str

    def words(self, *words: str) -> list[str]:
        return [
            sys.executable, "-m", "penstock.cli", *words,
            "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace,
        ]  # fmt: skip

    def run(self, *words: str, timeout: float = 120) -> Ran:
        done = subprocess.run(self.words(*words), capture_output=True, text=True, timeout=timeout)
        return Ran(done.returncode, done.stdout, done.stderr)
