"""Failures in a row across processes, for streams that set restart.maxAttempts.

A JVM that dies takes the supervisor's memory with it, and the kubelet starts the container again
for ever. So the count is kept beside the checkpoint, one ahead: a process that ends without a word
has failed once more. A stop in good order forgets it.
"""

from __future__ import annotations

import json
from pathlib import Path


class Attempts:
    """The count of one spec: a new spec begins anew."""

    def __init__(self, checkpoint: Path, spec_hash: str) -> None:
        self._file = checkpoint / "penstock" / "attempts.json"
        self._spec_hash = spec_hash

    def read(self) -> int:
        """Failures in a row so far, the end of the last process included."""
        try:
            document = json.loads(self._file.read_text())
            return int(document["attempts"]) if document["spec"] == self._spec_hash else 0
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0

    def write(self, attempts: int) -> None:
        """So many, if this process ends without a word; all of it is written or nothing."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".tmp")
        draft.write_text(json.dumps({"spec": self._spec_hash, "attempts": attempts + 1}))
        draft.replace(self._file)

    def forget(self) -> None:
        """The next start is a fresh one."""
        self._file.unlink(missing_ok=True)
