"""The kinds of checkpoint repair: their names, causes and descriptions."""

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
    TEMPORARY_FILE = "TemporaryFile"
    LEFTOVER_CHECKSUM = "LeftoverChecksum"
    METADATA_LINE = "MetadataLine"
    ASYNC_GAP = "AsyncGap"
    EMPTY_BATCH = "EmptyBatch"
    TORN_COMMIT = "TornCommit"
    TORN_OFFSETS = "TornOffsets"
    COMMIT_WITHOUT_OFFSETS = "CommitWithoutOffsets"
    BACKWARD_OFFSETS = "BackwardOffsets"
    MISSING_OFFSETS = "MissingOffsets"
    LOST_COMMITS = "LostCommits"
    BROKEN_METADATA = "BrokenMetadata"
    BROKEN_INITIAL_OFFSETS = "BrokenInitialOffsets"


@dataclass(frozen=True)
class RepairDescription:
    """One kind of repair, for users: a row of docs/checkpoints.md."""

    cause: Cause
    found: str
    action: str


REPAIR_DESCRIPTIONS: Mapping[RepairKind, RepairDescription] = {
    RepairKind.UNCOMMITTED_OFFSETS: RepairDescription(
        Cause.CRASH,
        "`offsets/N` after the last commit, which the engine that starts would not run again. "
        "Spark leaves the file in place and would commit its own epoch N under offsets that it "
        "never reached",
        "removed: the records are replayed",
    ),
    RepairKind.TEMPORARY_FILE: RepairDescription(
        Cause.CRASH, "a file that Spark or Penstock had not finished writing", "removed"
    ),
    RepairKind.LEFTOVER_CHECKSUM: RepairDescription(
        Cause.CRASH,
        "a `.crc` without its file, or one that does not match a whole file: Spark could not write "
        "the next file of that name",
        "removed",
    ),
    RepairKind.METADATA_LINE: RepairDescription(
        Cause.SWITCH,
        "offsets of the continuous engine, without the line that the batch engines need",
        "the line is added",
    ),
    RepairKind.ASYNC_GAP: RepairDescription(
        Cause.SWITCH,
        "numbers that asynchronous progress tracking, which is now off, left out: Spark needs the "
        "offsets before the newest",
        "added, from the offsets before the gap",
    ),
    RepairKind.EMPTY_BATCH: RepairDescription(
        Cause.CRASH,
        "a batch that the sink may have written, and whose offsets are lost: a sink that "
        "recognises a batch by its id would skip other records of the same id",
        "planned again without records, which are replayed in the next batch",
    ),
    RepairKind.TORN_COMMIT: RepairDescription(
        Cause.DAMAGE,
        "a commit that is empty, truncated, or does not match its checksum",
        "removed: the newest whole commit counts",
    ),
    RepairKind.TORN_OFFSETS: RepairDescription(
        Cause.DAMAGE,
        "offsets that are empty, truncated, or do not match their checksum",
        "removed, together with a commit of the same number",
    ),
    RepairKind.COMMIT_WITHOUT_OFFSETS: RepairDescription(
        Cause.DAMAGE, "a commit whose offsets are missing or torn", "removed"
    ),
    RepairKind.BACKWARD_OFFSETS: RepairDescription(
        Cause.DAMAGE,
        "a planned batch that ends before the one before it, which Spark takes for data loss",
        "removed: the batch is planned again",
    ),
    RepairKind.MISSING_OFFSETS: RepairDescription(
        Cause.DAMAGE,
        "the offsets before the newest are missing, and not because of asynchronous progress "
        "tracking",
        "added, from the offsets before them; Spark reads them and does not use them",
    ),
    RepairKind.LOST_COMMITS: RepairDescription(
        Cause.DAMAGE,
        "no commit is left, but the offsets of the batch engines are: batch N is planned when "
        "N - 1 is done",
        "nothing to do: the newest batch runs again",
    ),
    RepairKind.BROKEN_METADATA: RepairDescription(
        Cause.DAMAGE,
        "`metadata`, which holds only the query's id, is missing or broken",
        "rewritten: the query gets another id, which only Spark's own metrics and logs show",
    ),
    RepairKind.BROKEN_INITIAL_OFFSETS: RepairDescription(
        Cause.DAMAGE,
        "`sources/N/0`, the initial offsets file of a batch engine, is broken",
        "removed: Spark writes it again if it needs it, and Penstock knows the offsets",
    ),
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
        return REPAIR_DESCRIPTIONS[self.kind].cause


def most_severe(repairs: Iterable[Repair]) -> Repair:
    """The first repair with the most severe cause."""
    order = list(Cause)
    return max(repairs, key=lambda each: order.index(each.cause))


def summarize(repairs: Iterable[Repair]) -> str:
    """Each kind, with a few of its paths."""
    paths: dict[RepairKind, list[str]] = {}
    for each in repairs:
        paths.setdefault(each.kind, []).append(each.path)
    return "; ".join(f"{kind} ({_some(found)})" for kind, found in paths.items())


def _some(paths: list[str]) -> str:
    more = len(paths) - _MAX_PATHS_SHOWN
    return ", ".join(paths[:_MAX_PATHS_SHOWN]) + (f" and {more} more" if more > 0 else "")
