"""What can be put right in a checkpoint: what each mending is called, and what led to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.api.v1alpha1.status import Cause

# Enough to find the place by; the log line has them all.
_PATHS_SHOWN = 3


class RepairKind(StrEnum):
    """What was found, and put right."""

    UNCOMMITTED_OFFSETS = "UncommittedOffsets"
    TEMPORARY_FILE = "TemporaryFile"
    STRAY_CHECKSUM = "StrayChecksum"
    METADATA_LINE = "MetadataLine"
    ASYNC_GAP = "AsyncGap"
    TORN_COMMIT = "TornCommit"
    TORN_OFFSETS = "TornOffsets"
    COMMIT_WITHOUT_OFFSETS = "CommitWithoutOffsets"
    BACKWARD_OFFSETS = "BackwardOffsets"
    MISSING_OFFSETS = "MissingOffsets"
    LOST_COMMITS = "LostCommits"
    BROKEN_METADATA = "BrokenMetadata"
    BROKEN_BEGINNING = "BrokenBeginning"


@dataclass(frozen=True)
class Meaning:
    """What a kind of mending is about, for people."""

    cause: Cause
    found: str
    done: str


MEANINGS: Mapping[RepairKind, Meaning] = {
    RepairKind.UNCOMMITTED_OFFSETS: Meaning(
        Cause.CRASH,
        "`offsets/N` beyond the last commit, which the engine that starts would not run again: "
        "Spark leaves it in place, and would commit its own epoch N under offsets never reached",
        "removed: the records come again",
    ),
    RepairKind.TEMPORARY_FILE: Meaning(
        Cause.CRASH, "a file that Spark, or Penstock, was still writing", "removed"
    ),
    RepairKind.STRAY_CHECKSUM: Meaning(
        Cause.CRASH,
        "a `.crc` without its file, or that does not fit a file that is whole: the next file of "
        "that name could not be written",
        "removed",
    ),
    RepairKind.METADATA_LINE: Meaning(
        Cause.SWITCH,
        "offsets of the continuous engine, without the line that the batch engines need",
        "the line supplied",
    ),
    RepairKind.ASYNC_GAP: Meaning(
        Cause.SWITCH,
        "numbers left out by asynchronous progress tracking, which is now off: Spark wants the "
        "offsets before the newest",
        "supplied, from the offsets before the gap",
    ),
    RepairKind.TORN_COMMIT: Meaning(
        Cause.DAMAGE,
        "a commit that is empty, cut short or not what its checksum says",
        "removed: the newest whole commit counts",
    ),
    RepairKind.TORN_OFFSETS: Meaning(
        Cause.DAMAGE,
        "offsets that are empty, cut short or not what their checksum says",
        "removed, and a commit of the same number with them",
    ),
    RepairKind.COMMIT_WITHOUT_OFFSETS: Meaning(
        Cause.DAMAGE, "a commit whose offsets are missing or torn", "removed"
    ),
    RepairKind.BACKWARD_OFFSETS: Meaning(
        Cause.DAMAGE,
        "a planned batch that ends before the one before it, which Spark takes for a loss of data",
        "removed: the batch is planned anew",
    ),
    RepairKind.MISSING_OFFSETS: Meaning(
        Cause.DAMAGE,
        "the offsets before the newest are missing, and no asynchronous progress tracking left "
        "them out",
        "supplied, from the offsets before them; Spark reads them and does not use them",
    ),
    RepairKind.LOST_COMMITS: Meaning(
        Cause.DAMAGE,
        "no commit is left, but the offsets of the batch engines are: batch N is planned when "
        "N - 1 is done",
        "nothing to do: the newest batch runs again",
    ),
    RepairKind.BROKEN_METADATA: Meaning(
        Cause.DAMAGE,
        "`metadata`, which holds the query's id and nothing else, is missing or broken",
        "written anew: the query has another id, which only Spark's own metrics and logs show",
    ),
    RepairKind.BROKEN_BEGINNING: Meaning(
        Cause.DAMAGE,
        "`sources/N/0`, where a batch engine noted at its first start where to begin, is broken",
        "removed: Spark notes it again if it needs it, and Penstock knows where that was",
    ),
}


@dataclass(frozen=True)
class Repair:
    """One thing that was put right."""

    kind: RepairKind
    path: str
    """Relative to the checkpoint."""

    @property
    def cause(self) -> Cause:
        """What led to it."""
        return MEANINGS[self.kind].cause


def gravest(repairs: Iterable[Repair]) -> Repair:
    """The one to be named where there is room for one: the first of the gravest cause."""
    order = list(Cause)
    return max(repairs, key=lambda each: order.index(each.cause))


def in_words(repairs: Iterable[Repair]) -> str:
    """Kind by kind, with a few paths of each."""
    paths: dict[RepairKind, list[str]] = {}
    for each in repairs:
        paths.setdefault(each.kind, []).append(each.path)
    return "; ".join(f"{kind} ({_some(found)})" for kind, found in paths.items())


def _some(paths: list[str]) -> str:
    more = len(paths) - _PATHS_SHOWN
    return ", ".join(paths[:_PATHS_SHOWN]) + (f" and {more} more" if more > 0 else "")
