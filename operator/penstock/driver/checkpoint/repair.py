"""Spark's checkpoint on disk: read, judged, and put right in the direction that replays. Pure.

Layout, as Spark 4.2 writes it (measured): `metadata`; `offsets/N`, written by the continuous engine
when every partition has reported the end of epoch N; `commits/N`, written when every partition's
writer has flushed it; `sources/N/0`, where a batch engine began. What is in a file, and its
checksum, is files.py's.

Two facts about ContinuousExecution make repairs necessary before each start. A start goes on from
the newest commit, and an `offsets/N` without a commit is left in place and never overwritten, so
the next run would commit its own epoch N under offsets that it has not reached: records lost. And a
leftover `commits/.N.crc` makes the commit of N fail inside an endpoint that swallows the error: the
query runs on and never commits again.

The batch engines write `offsets/N` once batch N - 1 is done, and a restart runs N again with those
very offsets: they are kept. What the engines leave for one another is in engine_switch.py.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.driver.checkpoint.files import (
    Files,
    checked_file,
    checksum_differs,
    checksum_matches,
    checksum_path,
    is_commit,
    is_continuous,
    is_initial_offsets,
    is_metadata,
    is_offsets,
    moves_backward,
)
from penstock.driver.engine import Engine
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

METADATA = "metadata"
# Names the query ids that are made up here; a random one would make the same repair twice another.
_QUERIES = uuid.UUID("5f3a54c9-8a2f-4c43-9d3e-6b1d5be4d0a1")

_ENTRY = re.compile(r"[0-9]+")
_INITIAL_OFFSETS = re.compile(r"sources/[0-9]+/0")


@dataclass(frozen=True)
class RepairPlan:
    """What to delete, in this order, and then to write.

    Cut anywhere, it leaves what the next start mends to the same end.
    """

    delete: tuple[str, ...]
    epoch: int | None
    """The committed epoch that the query will go on from; None begins at the first."""
    write: Mapping[str, bytes] = field(default_factory=dict)
    """What to write after that, each file at once or not at all."""
    repairs: tuple[Repair, ...] = ()
    """What was found, for the log, the report and the metrics."""


def plan_repair(files: Files, engine: Engine = Engine.CONTINUOUS) -> RepairPlan:
    """The repair a start needs; raises if it could only begin silently anew."""
    commits, offsets = _entries(files, "commits"), _entries(files, "offsets")
    whole = {n for n in commits if _is_sound(files, f"commits/{n}", is_commit)}
    sound = {n for n in offsets if _is_sound(files, f"offsets/{n}", is_offsets)}
    epoch = max(whole & sound, default=None)
    planned = set() if engine is Engine.CONTINUOUS else _planned(files, offsets, sound, epoch)
    if epoch is None and not planned:
        _refuse_to_begin_anew(commits, offsets)
    last = -1 if epoch is None else epoch
    to_delete = [
        *_commits_to_delete(commits, whole, last),
        *_offsets_to_delete(files, offsets, sound, planned, last),
        *_broken_initial_offsets(files),
    ]
    found = list(to_delete)
    if epoch is None and max(planned, default=0) > 0:
        found.append(Repair(RepairKind.LOST_COMMITS, "commits"))
    gone = [each.path for each in to_delete]
    write = _metadata(files, gone)
    found += [Repair(RepairKind.BROKEN_METADATA, path) for path in write]
    of_those = [path for path in map(checksum_path, (*gone, *write)) if path in files]
    hidden = list(_stale_files(files, {*gone, *write}))
    return RepairPlan(
        delete=(*gone, *of_those, *(each.path for each in hidden)),
        epoch=epoch,
        write=write,
        repairs=(*found, *hidden),
    )


def _planned(files: Files, offsets: set[int], sound: set[int], epoch: int | None) -> set[int]:
    """The batches after the last commit that can be run again as they were planned.

    Batch N runs when N - 1 is done, and async progress tracking skips numbers: so in rising order
    up to the first file that is damaged, or that the continuous engine left, or that goes back.

    Without any commit, the newest offsets still say that what lies before them is done; they are
    gone on from if they are the first batch's, or if it is known where they begin.
    """
    kept: set[int] = set()
    before = epoch
    for n in sorted(n for n in offsets if epoch is None or n > epoch):
        if (
            n not in sound
            or is_continuous(files[f"offsets/{n}"])
            or (before is not None and _moves_backward(files, before, n))
        ):
            if epoch is None:
                continue
            break
        kept.add(n)
        before = n
    return set() if epoch is None and len(kept) == 1 and 0 not in kept else kept


def _moves_backward(files: Files, before: int, n: int) -> bool:
    return moves_backward(files[f"offsets/{before}"], files[f"offsets/{n}"])


def _refuse_to_begin_anew(commits: set[int], offsets: set[int]) -> None:
    """Raises where there was progress that can't be told any more.

    The continuous engine writes offsets/N when epoch N - 1 has been committed, so with offsets/2
    there were commits. A start would read everything from the stream's first offsets again, and
    what retention has removed since would be lost without a word.
    """
    newest = max((*(n for n in commits if n > 0), *(n for n in offsets if n > 1)), default=None)
    if newest is None:
        return
    raise DriverError(
        Failure(
            "CheckpointDamaged",
            f"the checkpoint has been at epoch {newest}, and no commit that can be read is left to "
            "go on from. Starting would read everything from the first offsets again. Restore the "
            "checkpoint's volume from a snapshot; or put back by hand where to go on from "
            "(docs/checkpoints.md, 'By hand'); or, if reading everything again is what you want, "
            "apply the stream under another name",
            permanent=True,
        )
    )


def _commits_to_delete(commits: set[int], whole: set[int], last: int) -> Iterator[Repair]:
    """Of older ones those without offsets stay: Spark purges offsets first."""
    for n in sorted(commits, reverse=True):
        if n not in whole:
            yield Repair(RepairKind.TORN_COMMIT, f"commits/{n}")
        elif n > last:
            yield Repair(RepairKind.COMMIT_WITHOUT_OFFSETS, f"commits/{n}")


def _offsets_to_delete(
    files: Files, offsets: set[int], sound: set[int], planned: set[int], last: int
) -> Iterator[Repair]:
    kept = sorted(planned | ({last} if last >= 0 else set()))
    for n in sorted(offsets, reverse=True):
        path = f"offsets/{n}"
        if n not in sound:
            yield Repair(RepairKind.TORN_OFFSETS, path)
        elif n > last and n not in planned:
            back = any(m < n and _moves_backward(files, m, n) for m in kept[-1:])
            yield Repair(
                RepairKind.BACKWARD_OFFSETS if back else RepairKind.UNCOMMITTED_OFFSETS, path
            )


def _broken_initial_offsets(files: Files) -> Iterator[Repair]:
    for path in sorted(filter(_INITIAL_OFFSETS.fullmatch, files)):
        if not _is_sound(files, path, is_initial_offsets):
            yield Repair(RepairKind.BROKEN_INITIAL_OFFSETS, path)


def _metadata(files: Files, gone: list[str]) -> dict[str, bytes]:
    """The metadata to write where Spark would not start over what is there.

    It cannot read a broken one, and without one it refuses logs
    (STREAMING_CHECKPOINT_MISSING_METADATA_FILE). The query's id is all that is in it, and it is
    made from what stays, so that a mending that is cut short makes the same again.
    """
    found = files.get(METADATA)
    left = sorted(path for path in files if not _is_hidden(path) and path not in gone)
    if is_metadata(found) if found is not None else not left:
        return {}
    named_by = b"".join(files[path] for path in left if path != METADATA)
    return {METADATA: f'{{"id":"{uuid.uuid5(_QUERIES, named_by.hex())}"}}'.encode()}


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def plan_offsets(files: Files, offsets: Offsets) -> RepairPlan:
    """The repair that makes a Kafka source go on from other offsets than were committed.

    What was planned beyond them goes: it is of records that are no more.
    """
    epoch = max(_entries(files, "commits"), default=None)
    assert epoch is not None
    path = f"offsets/{epoch}"
    planned = [
        f"offsets/{n}" for n in sorted(_entries(files, "offsets"), reverse=True) if n > epoch
    ]
    # Files before their checksums; and no checksum that would contradict what is written.
    to_delete = [
        *planned,
        *(sum_ for it in [*planned, path] if (sum_ := checksum_path(it)) in files),
    ]
    *head, _ = files[path].decode().splitlines()
    line = json.dumps(
        {topic: {str(p): offset for p, offset in of.items()} for topic, of in offsets.items()}
    )
    return RepairPlan(tuple(to_delete), epoch, {path: "\n".join([*head, line]).encode()})


def _entries(files: Files, log: str) -> set[int]:
    names = (path.removeprefix(f"{log}/") for path in files if path.startswith(f"{log}/"))
    return {int(name) for name in names if _ENTRY.fullmatch(name)}


def _is_sound(files: Files, path: str, is_whole: Callable[[bytes], bool]) -> bool:
    return is_whole(files[path]) and not checksum_differs(files, path)


def _stale_files(files: Files, gone: set[str]) -> Iterator[Repair]:
    """Temporary files, and checksums that fit nothing that stays."""
    for path in sorted(files):
        if not _is_hidden(path):
            continue
        of = checked_file(path)
        if of is None:
            yield Repair(RepairKind.TEMPORARY_FILE, path)
        elif of not in gone and not (of in files and checksum_matches(files[path], files[of])):
            yield Repair(RepairKind.LEFTOVER_CHECKSUM, path)
