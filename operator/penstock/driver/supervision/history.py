"""What the supervisor remembers across processes: a small file beside the checkpoint.

A process that exits would otherwise forget that the spec has proved itself, how many failures came
in a row, and how much patience a slow query needs.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.driver.checkpoint import durable_files
from penstock.driver.logs import log_event


@dataclass(frozen=True)
class DurableState:
    """The part of the supervisor's state that outlives its process."""

    proved: bool = False
    """The spec has committed records, or epochs for some time: it can run."""
    attempts: int = 0
    """Failures in a row."""
    poison_failures: int = 0
    """Failures that one record may have caused, since records were last committed."""
    stalls: int = 0
    """Stalls since the last commit."""
    slowest: float = 0.0
    """Seconds between two signs of progress of a slow query, at most."""


class DurableStateFile:
    """The stored state of one spec. A new spec starts without one."""

    def __init__(self, checkpoint: Path, spec_hash: str) -> None:
        self._file = checkpoint / "penstock" / "supervisor.json"
        self._spec_hash = spec_hash

    def read(self) -> DurableState:
        """The stored state; nothing is remembered if the file is missing or cannot be read."""
        try:
            document = json.loads(self._file.read_text())
            if document["spec"] != self._spec_hash:
                return DurableState()
            return DurableState(
                proved=bool(document["proved"]),
                attempts=_count(document["attempts"]),
                poison_failures=_count(document["poison_failures"]),
                stalls=_count(document["stalls"]),
                slowest=_seconds(document["slowest"]),
            )
        except FileNotFoundError:
            return DurableState()
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            log_event(
                "what earlier processes knew cannot be read", logging.WARNING, error=repr(error)
            )
            return DurableState()

    def write(self, state: DurableState) -> None:
        """Replaces the stored state; it survives a power cut. Raises OSError."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        document = {"spec": self._spec_hash, **asdict(state)}
        durable_files.write(self._file, json.dumps(document).encode())
        durable_files.sync(self._file.parent)


def _count(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return max(0, value)


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(value)
    return max(0.0, float(value))
