"""Counts failures in a row across processes, for streams that set restart.maxAttempts.

The supervisor's memory ends with its process, and the kubelet restarts a container without limit.
So the count is stored beside the checkpoint, one failure ahead: a process that crashes has already
counted its own crash. A clean stop resets the count.
"""

from __future__ import annotations

import json
from pathlib import Path


class FailureCount:
    """The stored count for one spec. A new spec starts at zero."""

    def __init__(self, checkpoint: Path, spec_hash: str) -> None:
        self._file = checkpoint / "penstock" / "attempts.json"
        self._spec_hash = spec_hash

    def read(self) -> int:
        """Failures in a row so far, including the exit of the previous process."""
        try:
            document = json.loads(self._file.read_text())
            return int(document["attempts"]) if document["spec"] == self._spec_hash else 0
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0

    def write(self, attempts: int) -> None:
        """Stores `attempts` plus one for a crash of this process; the write is atomic."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".tmp")
        draft.write_text(json.dumps({"spec": self._spec_hash, "attempts": attempts + 1}))
        draft.replace(self._file)

    def reset(self) -> None:
        """Removes the stored count."""
        self._file.unlink(missing_ok=True)
