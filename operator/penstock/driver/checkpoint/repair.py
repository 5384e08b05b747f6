"""Plans repairs of a checkpoint, so that records are replayed and never skipped. Pure functions.

The layout, as Spark 4.2 writes it (measured): `metadata`; `offsets/N`, which the continuous engine
writes when every partition has reported the end of epoch N; `commits/N`, written when every
partition's writer has flushed the epoch; `sources/N/0`, the initial offsets file of a batch engine.
files.py has the formats of the files and their checksums.

Two facts about ContinuousExecution require repairs before each start. A start continues from the
newest commit, and Spark keeps and never overwrites an `offsets/N` without a commit, so the next
run would commit its own epoch N under offsets that it has not reached: lost records. And a leftover
`commits/.N.crc` makes the commit of N fail in an endpoint that swallows the error: the query runs
on and never commits again.

The micro-batch engine writes `offsets/N` after batch N - 1, and a restart runs batch N again with
the same offsets, so these are kept. The real-time engine writes `offsets/N` when batch N is done,
right before its commit. Its start removes all offsets after the newest commit, also if there is
none (MicroBatchExecution.initializeExecution calls offsetLog.purgeAfter): without commits it would
begin anew. So it gets a commit for every batch that is known to be done, as the continuous engine
does.

mode_switch.py repairs what one engine leaves behind and another cannot read. batch_ids.py adds
what a sink needs that recognises a batch by its id.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.api.modes import Mode
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
    with_offsets,
)
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

METADATA = "metadata"
# A commit without a watermark (CommitLog, version 1).
COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
# The namespace of new query ids: with random ids a repeated repair would differ from the first.
_QUERIES = uuid.UUID("5f3a54c9-8a2f-4c43-9d3e-6b1d5be4d0a1")

_ENTRY = re.compile(r"[0-9]+")
_INITIAL_OFFSETS = re.compile(r"sources/[0-9]+/0")


@dataclass(frozen=True)
class RepairPlan:
    """The files to write first, those to delete, in this order, and those to write then.

    If a crash interrupts it anywhere, the repair of the next start has the same result.
    """

    delete: tuple[str, ...]
    epoch: int | None
    """The commit that the query continues from; None: a start without a commit."""
    write: Mapping[str, bytes] = field(default_factory=dict)
    """The files to write, each of them atomically."""
    repairs: tuple[Repair, ...] = ()
    """What is repaired, for the log, the report and the metrics."""
    write_first: Mapping[str, bytes] = field(default_factory=dict)
    """The files to write before anything is deleted. An empty one marks a number as used, so that
    an interrupted repair leaves neither a file that looks whole nor none at all."""
    after: int | None = field(default=None, compare=False)
    """The query reads on from the end of this `offsets/N`; None: from its first offsets."""
    first_start: bool = field(default=False, compare=False)
    """Neither offsets nor a commit was ever written."""


def plan_repair(
    files: Files,
    mode: Mode = Mode.CONTINUOUS,
    *,
    kafka: bool = True,
    first_known: bool = False,
) -> RepairPlan:
    """The repair that a start needs; raises CheckpointDamaged if the progress is lost.

    `kafka`: the source is Kafka. `first_known`: the offsets of the stream's first start are known,
    so that everything since then can be read again.
    """
    commits, offsets = entries(files, "commits"), entries(files, "offsets")
    valid_commits = {n for n in commits if _is_valid(files, f"commits/{n}", is_commit)}
    valid_offsets = {n for n in offsets if _is_valid(files, f"offsets/{n}", is_offsets)}
    epoch = max(valid_commits & valid_offsets, default=None)
    planned = _planned_batches(files, offsets, valid_offsets, epoch)
    if epoch is None and not planned and not (first_known and 0 in offsets):
        _refuse_to_start_over(commits, offsets)
    lost_commits = epoch is None and max(planned, default=0) > 0
    commit: dict[str, bytes] = {}
    if mode.has_long_running_tasks:
        if lost_commits and len(planned) > 1:  # the newest shows that the one before it is done
            epoch = sorted(planned)[-2]
            commit[f"commits/{epoch}"] = COMMIT
        planned = set()
    last = -1 if epoch is None else epoch
    to_delete = [
        *_commits_to_delete(commits, valid_commits, last),
        *_offsets_to_delete(files, offsets, valid_offsets, planned, last),
        *(_broken_initial_offsets(files) if kafka else ()),
    ]
    # A file that is written replaces a torn one.
    found, to_delete = (
        list(to_delete),
        [repair for repair in to_delete if repair.path not in commit],
    )
    if lost_commits:
        found.append(Repair(RepairKind.LOST_COMMITS, next(iter(commit), "commits")))
    deleted = [repair.path for repair in to_delete]
    metadata = _metadata(files, deleted)
    found += [Repair(RepairKind.BROKEN_METADATA, path) for path in metadata]
    written = (*commit, *metadata)
    checksums = [path for path in map(checksum_path, (*deleted, *written)) if path in files]
    leftover_files = list(_leftover_files(files, {*deleted, *written}))
    return RepairPlan(
        delete=(*deleted, *checksums, *(repair.path for repair in leftover_files)),
        epoch=epoch,
        write=metadata,
        repairs=(*found, *leftover_files),
        write_first=commit,
        first_start=not commits and not offsets,
    )


def _planned_batches(
    files: Files, offsets: set[int], valid_offsets: set[int], epoch: int | None
) -> set[int]:
    """The batches after the last commit that the micro-batch engine can run again as planned.

    Batch N runs after N - 1, and async progress tracking skips numbers. So these are the batches in
    rising order up to the first file that is damaged, was written by the continuous engine, or
    moves backward.

    Without any commit, the newest offsets still show that all earlier batches are done. They are
    kept if they belong to the first batch, or if the offsets before them are known.
    """
    kept: set[int] = set()
    before = epoch
    for n in sorted(n for n in offsets if epoch is None or n > epoch):
        if (
            n not in valid_offsets
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


def _refuse_to_start_over(commits: set[int], offsets: set[int]) -> None:
    """Raises if there was progress that cannot be read any more.

    The batch engines write offsets/N after batch N - 1, and the continuous engine is normally one
    epoch ahead of its commits, so with offsets/2 there were commits. A start would read everything
    from the stream's first offsets again, and would silently skip the records that retention has
    removed since.
    """
    newest = max((*(n for n in commits if n > 0), *(n for n in offsets if n > 1)), default=None)
    if newest is None:
        return
    raise DriverError(
        Failure(
            "CheckpointDamaged",
            f"The checkpoint has reached epoch {newest}, but has no readable commit to continue "
            "from. A start would read everything again from the first offsets. Restore the "
            "checkpoint's volume from a snapshot, or restore the offsets by hand "
            "(docs/checkpoints.md, 'By hand'). To read everything again on purpose, apply the "
            "stream under another name with startingOffsets: earliest.",
            permanent=True,
        )
    )


def _commits_to_delete(commits: set[int], valid_commits: set[int], last: int) -> Iterator[Repair]:
    """Older commits without offsets are kept: Spark purges offsets first."""
    for n in sorted(commits, reverse=True):
        if n not in valid_commits:
            yield Repair(RepairKind.TORN_COMMIT, f"commits/{n}")
        elif n > last:
            yield Repair(RepairKind.COMMIT_WITHOUT_OFFSETS, f"commits/{n}")


def _offsets_to_delete(
    files: Files, offsets: set[int], valid_offsets: set[int], planned: set[int], last: int
) -> Iterator[Repair]:
    kept = sorted(planned | ({last} if last >= 0 else set()))
    for n in sorted(offsets, reverse=True):
        path = f"offsets/{n}"
        if n not in valid_offsets:
            yield Repair(RepairKind.TORN_OFFSETS, path)
        elif n > last and n not in planned:
            back = any(m < n and _moves_backward(files, m, n) for m in kept[-1:])
            yield Repair(
                RepairKind.BACKWARD_OFFSETS if back else RepairKind.UNCOMMITTED_OFFSETS, path
            )


def _broken_initial_offsets(files: Files) -> Iterator[Repair]:
    for path in sorted(filter(_INITIAL_OFFSETS.fullmatch, files)):
        if not _is_valid(files, path, is_initial_offsets):
            yield Repair(RepairKind.BROKEN_INITIAL_OFFSETS, path)


def _metadata(files: Files, deleted: list[str]) -> dict[str, bytes]:
    """The metadata to write, if Spark would refuse to start without it.

    Spark cannot read broken metadata, and refuses logs without metadata
    (STREAMING_CHECKPOINT_MISSING_METADATA_FILE). It contains only the query's id, which is derived
    from the files that are kept, so that a repeated repair writes the same id.
    """
    found = files.get(METADATA)
    left = sorted(path for path in files if not _is_hidden(path) and path not in deleted)
    if is_metadata(found) if found is not None else not left:
        return {}
    named_by = b"".join(files[path] for path in left if path != METADATA)
    return {METADATA: f'{{"id":"{uuid.uuid5(_QUERIES, named_by.hex())}"}}'.encode()}


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def plan_offsets(files: Files, plan: RepairPlan, offsets: Offsets) -> RepairPlan:
    """Makes a Kafka source continue from these offsets instead of those of the repair `plan`.

    For a checkpoint that `plan` has repaired. A planned batch runs without records, because it
    would read records that no longer exist: the query reads on from `offsets` in the next batch,
    so that no batch id gets other records than before. Without any offsets to continue from, the
    initial offsets files are removed: Spark writes them again from startingOffsets.
    """
    newest = max(entries(files, "offsets"), default=None)
    replaced = [f"offsets/{n}" for n in sorted({n for n in (plan.after, newest) if n is not None})]
    initial = [] if plan.after is not None else sorted(filter(_INITIAL_OFFSETS.fullmatch, files))
    write = {path: with_offsets(files[path], offsets) for path in replaced}
    # Files before their checksums, and the checksums of the files that are written.
    checksums = [path for path in map(checksum_path, (*initial, *replaced)) if path in files]
    planned = {} if newest is None or newest == plan.epoch else {f"offsets/{newest}": b""}
    return RepairPlan(
        (*initial, *checksums), plan.epoch, write, write_first=planned, after=plan.after
    )


def entries(files: Files, log: str) -> set[int]:
    """The numbers of the files in one of Spark's logs."""
    names = (path.removeprefix(f"{log}/") for path in files if path.startswith(f"{log}/"))
    return {int(name) for name in names if _ENTRY.fullmatch(name)}


def _is_valid(files: Files, path: str, is_format_valid: Callable[[bytes], bool]) -> bool:
    return is_format_valid(files[path]) and not checksum_differs(files, path)


def _leftover_files(files: Files, deleted: set[str]) -> Iterator[Repair]:
    """Temporary files, and checksums that match no file that is kept."""
    for path in sorted(files):
        if not _is_hidden(path):
            continue
        of = checked_file(path)
        if of is None:
            yield Repair(RepairKind.TEMPORARY_FILE, path)
        elif of not in deleted and not (of in files and checksum_matches(files[path], files[of])):
            yield Repair(RepairKind.LEFTOVER_CHECKSUM, path)
