"""The kinds of checkpoint repair, and what made each necessary (docs/checkpoints.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.api.v1alpha1.status import Cause

# Enough to find the place; the driver's log line lists all paths.
_MAX_PATHS_SHOWN = 3


class RepairKind(StrEnum):
    """What was found, and repaired."""

    UNCOMMITTED_OFFSETS = "UncommittedOffsets"
    LEFTOVER_FILE = "LeftoverFile"
    METADATA_LINE = "MetadataLine"
    ASYNC_GAP = "AsyncGap"
    EMPTY_BATCH = "EmptyBatch"
    IMPORTED = "Imported"


_CAUSES: Mapping[RepairKind, Cause] = {
    RepairKind.UNCOMMITTED_OFFSETS: Cause.CRASH,
    RepairKind.LEFTOVER_FILE: Cause.CRASH,
    RepairKind.EMPTY_BATCH: Cause.CRASH,
    RepairKind.METADATA_LINE: Cause.SWITCH,
    RepairKind.ASYNC_GAP: Cause.SWITCH,
    RepairKind.IMPORTED: Cause.SWITCH,
}


@dataclass(frozen=True)
class Repair:
    """One repaired file."""

    kind: RepairKind
    path: str
    """Relative to the checkpoint."""

    @property
    def cause(self) -> Cause:
        """What made the repair necessary."""
        return _CAUSES[self.kind]


def most_severe(repairs: Iterable[Repair]) -> Repair:
    """The first repair with the most severe cause."""
    order = list(Cause)
    return max(repairs, key=lambda repair: order.index(repair.cause))


def summarize(repairs: Iterable[Repair]) -> str:
    """Each kind, with a few of its paths."""
    paths: dict[RepairKind, list[str]] = {}
    for repair in repairs:
        paths.setdefault(repair.kind, []).append(repair.path)
    return "; ".join(f"{kind} ({_some(of_kind)})" for kind, of_kind in paths.items())


def _some(paths: list[str]) -> str:
    more = len(paths) - _MAX_PATHS_SHOWN
    return ", ".join(paths[:_MAX_PATHS_SHOWN]) + (f" and {more} more" if more > 0 else "")
