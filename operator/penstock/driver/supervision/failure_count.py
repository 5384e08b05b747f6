"""Counts failures in a row across processes, for streams that set restart.maxAttempts.

The supervisor's memory ends with its process, and the kubelet restarts a container without limit.
So the count is stored beside the checkpoint, one failure ahead: a process that crashes has already
counted its own crash. A clean stop resets the count.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from penstock.driver.checkpoint import durable_files
from penstock.driver.logs import log_event


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
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._log("the count of failures cannot be read, and starts at zero", error)
            return 0

    def write(self, attempts: int) -> None:
        """Stores `attempts` plus one for a crash of this process; the write is atomic.

        A volume that is full or gone fails the repair of the checkpoint, with a reason and a retry.
        Here it is only logged: the count stays in memory, and a crash now is not counted.
        """
        document = {"spec": self._spec_hash, "attempts": attempts + 1}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable_files.write(self._file, json.dumps(document).encode())
            durable_files.sync(self._file.parent)
        except OSError as error:
            self._log("the count of failures cannot be stored", error)

    def reset(self) -> None:
        """Removes the stored count."""
        try:
            durable_files.remove(self._file)
        except OSError as error:
            self._log("the count of failures cannot be removed", error)

    def _log(self, what: str, error: Exception) -> None:
        log_event(what, logging.WARNING, file=str(self._file), error=repr(error))
