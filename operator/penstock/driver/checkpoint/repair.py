"""Repairs a checkpoint so that records are replayed and never skipped. Pure functions.

The files are parsed once, each repair is a function from logs to logs, and the difference between
the parsed logs and the target is the plan (logs.py).

ContinuousExecution requires a repair before each start (measured, Spark 4.2; docs/checkpoints.md
has the layout). A start continues from the newest commit, and Spark keeps and never overwrites an
`offsets/N` without a commit, so the next run would commit its own epoch N under offsets that it has
not reached: lost records.

The micro-batch engine writes `offsets/N` after batch N - 1, and a restart runs batch N again with
the same offsets, so these are kept. The real-time engine writes `offsets/N` when batch N is done,
right before its commit. Its start removes all offsets after the newest commit, also if there is
none (MicroBatchExecution.initializeExecution calls offsetLog.purgeAfter): without commits it would
begin anew, which is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.api.modes import Mode, execution_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.contract.remedies import REMEDIES
from penstock.driver.checkpoint import batch_ids, mode_switch
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.logs import LOG_FILE, Logs, Step, diff, files_after, numbers
from penstock.driver.checkpoint.plain_spark import import_steps
from penstock.driver.checkpoint.state_versions import StateStore
from penstock.driver.failures import CHECKPOINT_DAMAGED, DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

# The namespace of new query ids: with random ids a repeated repair would differ from the first.
_QUERIES = uuid.UUID("5f3a54c9-8a2f-4c43-9d3e-6b1d5be4d0a1")


@dataclass(frozen=True)
class RepairPlan:
    """What a repair does, and where the query continues then."""

    steps: tuple[Step, ...]
    epoch: int | None
    """The commit that the query continues from; None: a start without a commit."""
    repairs: tuple[Repair, ...] = ()
    """What is repaired, for the log, the report and the metrics."""
    continues_after: int | None = field(default=None, compare=False)
    """The query reads on from the end of this `offsets/N`; None: from its first offsets."""
    first_start: bool = field(default=False, compare=False)
    """Neither offsets nor a commit was ever written."""

    @property
    def delete(self) -> tuple[str, ...]:
        return tuple(path for path, content in self.steps if content is None)

    @property
    def write(self) -> dict[str, bytes]:
        """The files that are written, as they are in the end."""
        return {path: content for path, content in self.steps if content is not None}


def plan(
    files: Files,
    spec: StreamSpec,
    *,
    state: bool = False,
    first: Offsets | None = None,
    keep_ids: bool = False,
    whole_batches: bool = False,
    stores: Collection[StateStore] = (),
) -> RepairPlan:
    """The repair that a start of this spec needs, with any engine before it.

    `state`: the checkpoint contains the state of the previous query. `first`: the offsets of the
    stream's first start, if they are known. `keep_ids`: a sink may recognise a batch by its id.
    `whole_batches`: transactions know batches by their ids, and not what they have read.
    `stores`: those of the state, if their format is known.
    Raises CheckpointDamaged if the progress is lost, CheckpointHoldsState or
    CheckpointOfAnotherMode if this spec cannot continue.
    """
    mode, is_kafka = spec.trigger.mode, spec.source.kafka is not None
    importing = import_steps(files, is_kafka=is_kafka)
    files = files_after(files, importing)
    parsed = Logs.read(files, is_kafka=is_kafka)
    _refuse_damage(files, parsed)
    may_start_over = first is not None and not state and not keep_ids
    # Transactions that know what they have read let a batch run again with other records: one that
    # takes too long for a transaction would else run again for ever.
    may_change = spec.sink.exactly_once and not (state or whole_batches)
    keeps_plans = not (mode.has_long_running_tasks or may_change)
    target = _without_unusable(
        files, parsed, keeps_plans=keeps_plans, may_start_over=may_start_over
    )
    if not keep_ids:
        target = _without_other_partitions(target, spec)
    if state and target.epoch is not None and not execution_of(spec).may_keep_state:
        mode_switch.refuse_to_drop_state()
    if state and target.epoch is not None and mode is Mode.REAL_TIME:
        mode_switch.refuse_state_without_ids(target.commits[target.epoch])
    if target.epoch is not None:
        mode_switch.refuse_other_format(target.offsets[target.epoch], spec)
    removed: tuple[Step, ...] = ()
    target, undone = _without_repartition(target)
    if undone or _has_later_state(stores, target):
        removed = _removals_before_rerun(parsed, target, stores)
    if keep_ids:
        # No sink gets the batch of a repartition.
        told = {path: content for path, content in files.items() if path not in undone}
        target = batch_ids.keep_ids(told, target, spec, first, state=state)
    if mode is not Mode.CONTINUOUS:
        target = mode_switch.with_metadata_lines(target)
        if mode is not Mode.ASYNC:
            target = mode_switch.without_gap(target)
        if mode is Mode.REAL_TIME and not state:
            target = mode_switch.with_commit_for_real_time(target)
    target = with_metadata(target)
    steps = _steps(files, parsed, target, removed)
    imports = (Repair(RepairKind.IMPORTED, path) for path, _ in importing)
    return RepairPlan(
        (*importing, *steps),
        target.epoch,
        (*imports, *_removals(files, parsed, steps, dict(importing)), *target.added),
        target.continues_after,
        first_start=is_new(files),
    )


def is_new(files: Files) -> bool:
    """Whether neither offsets nor a commit was ever written."""
    return not numbers(files, "commits") and not numbers(files, "offsets")


def _refuse_damage(files: Files, parsed: Logs) -> None:
    """Raises for what neither Spark nor a crash leaves, since connector/ writes files whole.

    Only what Spark reads is looked at. An import leaves empty files, and so do an interrupted
    repair and a driver that has written too late (object_store.py): their numbers count as used.
    """
    if not numbers(files, "commits") and max(numbers(files, "offsets"), default=0) == 0:
        return  # not even the first batch is done
    last, whole = parsed.last, parsed.files
    broken = [
        path
        for path, content in files.items()
        if content and path not in whole and LOG_FILE.fullmatch(path) and _is_read(path, last)
    ]
    damaged = sorted({*broken, *parsed.commits_alone})
    if damaged:
        raise DriverError(
            Failure(
                CHECKPOINT_DAMAGED,
                f"{', '.join(damaged)}: damaged, or without the file that belongs to it. A disk or "
                f"a person has done that, and no crash. {REMEDIES[CHECKPOINT_DAMAGED].action}",
                permanent=True,
                recoverable=True,
            )
        )


def _is_read(path: str, epoch: int) -> bool:
    """Whether Spark reads a file when it continues from this epoch."""
    log, _, name = path.rpartition("/")
    return log not in ("offsets", "commits") or int(name) >= epoch


def _without_unusable(
    files: Files, parsed: Logs, *, keeps_plans: bool, may_start_over: bool
) -> Logs:
    """Without what a start could not continue from, or would skip records with."""
    planned = _planned_batches(files, parsed) if keeps_plans else set[int]()
    starts_over = may_start_over and 0 in numbers(files, "offsets")
    if parsed.epoch is None and not planned and not starts_over:
        refuse_to_start_over(files)
    last = parsed.last
    offsets = {n: entry for n, entry in parsed.offsets.items() if n <= last or n in planned}
    # Older commits without offsets are kept: Spark purges offsets first.
    commits = {n: commit for n, commit in parsed.commits.items() if n <= last}
    return replace(parsed, offsets=offsets, commits=commits)


def _without_other_partitions(logs: Logs, spec: StreamSpec) -> Logs:
    """Without a first batch that is planned with another number of partitions than spec's.

    Spark would keep that number (OffsetSeqMetadata.setSessionConf).
    """
    first, partitions = logs.offsets.get(0), spec.checkpoint.state_partitions
    if first is None or partitions is None or first.shuffle_partitions in (None, partitions):
        return logs
    is_planned = logs.epoch is None and logs.continues_after is None
    return replace(logs, offsets={}) if is_planned else logs


def _without_repartition(logs: Logs) -> tuple[Logs, Collection[str]]:
    """Without a repartition of the state that has not ended, and the files of its plan.

    Spark starts no query before it has (STREAMING_UNFINISHED_REPARTITION_DETECTED, 4.2), and it
    could never end, if Spark cannot divide this state.
    """
    newest, epoch = max(logs.offsets, default=None), logs.epoch
    if newest is None or epoch is None or newest == epoch:
        return logs, ()
    before, planned = (logs.offsets[n].shuffle_partitions for n in (epoch, newest))
    if before is None or planned is None or before == planned:
        return logs, ()
    return logs.up_to(epoch), (f"offsets/{newest}",)


def without_plan(files: Files, stores: Collection[StateStore]) -> tuple[Step, ...]:
    """The steps that remove what is planned after the newest commit."""
    parsed = Logs.read(files)
    if parsed.epoch is None:
        return ()
    target = parsed.up_to(parsed.epoch)
    return _steps(files, parsed, target, _removals_before_rerun(parsed, target, stores))


def _steps(files: Files, parsed: Logs, target: Logs, removed: tuple[Step, ...]) -> tuple[Step, ...]:
    """All steps to the target; `removed` comes first."""
    removed_paths = dict(removed)
    remaining = {path: content for path, content in files.items() if path not in removed_paths}
    return (*removed, *diff(remaining, parsed, target))


def _has_later_state(stores: Collection[StateStore], target: Logs) -> bool:
    """Whether there is state of batches that run again, with other records than before."""
    epoch = target.epoch
    if epoch is None or epoch != max(target.offsets):
        return False
    return any(store.files_later_than(epoch + 1) for store in stores)


def _removals_before_rerun(
    parsed: Logs, target: Logs, stores: Collection[StateStore]
) -> tuple[Step, ...]:
    """The steps that remove the versions and the plans of the batches that run again.

    Spark could load a part of the old state later on. And of several planned batches it runs the
    newest alone: so plans go before their commits, until whose end each start finds the same lost.
    """
    assert target.epoch is not None
    version = target.epoch + 1
    state = (path for store in stores for path in store.files_later_than(version))
    plans = (f"offsets/{n}" for n in sorted(parsed.offsets, reverse=True) if n > target.epoch)
    return tuple((path, None) for path in (*state, *plans))


def _planned_batches(files: Files, parsed: Logs) -> set[int]:
    """The batches after the last commit that the micro-batch engine can run again as planned.

    Batch N runs after N - 1, so these are the batches in rising order up to the first that is not
    whole, that the continuous engine has written, or that moves backward: a driver that is gone can
    have written it late (object_store.py). Async progress tracking skips numbers.

    Without any commit, the newest offsets still show that all earlier batches are done. They are
    kept if they belong to the first batch, or if the offsets before them are known.
    """
    epoch, kept = parsed.epoch, set[int]()
    previous = None if epoch is None else parsed.offsets[epoch]
    for n in sorted(n for n in numbers(files, "offsets") if epoch is None or n > epoch):
        entry = parsed.offsets.get(n)
        if entry is None or entry.is_continuous or (previous and entry.ends_before(previous)):
            if epoch is None:
                continue
            break
        kept.add(n)
        previous = entry
    return set() if epoch is None and len(kept) == 1 and 0 not in kept else kept


def refuse_to_start_over(files: Files) -> None:
    """Raises if there was progress that cannot be read any more.

    The batch engines write offsets/N after batch N - 1, and the continuous engine is normally one
    epoch ahead of its commits, so with offsets/2 there were commits. A start would read everything
    from the stream's first offsets again, and would silently skip the records that retention has
    removed since.
    """
    commits, offsets = numbers(files, "commits"), numbers(files, "offsets")
    newest = max((*(n for n in commits if n > 0), *(n for n in offsets if n > 1)), default=None)
    if newest is None:
        return
    raise DriverError.permanent(
        CHECKPOINT_DAMAGED,
        f"The checkpoint has reached epoch {newest}, but has no readable commit to continue "
        "from. A start would read everything again from the first offsets. Restore the "
        "checkpoint's volume from a snapshot, or restore the offsets by hand "
        "(docs/checkpoints.md, 'By hand'). To read everything again on purpose, begin "
        "another checkpoint.generation with startFrom.offsets: earliest.",
    )


def with_metadata(logs: Logs) -> Logs:
    """With metadata: Spark refuses logs without (STREAMING_CHECKPOINT_MISSING_METADATA_FILE).

    It contains only the query's id, which is derived from the other files, so that a repeated
    repair writes the same id.
    """
    others = logs.files.values()
    if logs.metadata is not None or not others:
        return logs
    metadata = f'{{"id":"{uuid.uuid5(_QUERIES, b"".join(others).hex())}"}}'.encode()
    return replace(logs, metadata=metadata)


def _removals(
    files: Files, parsed: Logs, steps: Collection[Step], imported: Collection[str]
) -> Iterator[Repair]:
    """Why files that were found are not kept; those `imported` are told of already."""
    for path, content in steps:
        if content is not None or path not in files or path in imported:
            continue
        if path not in parsed.files:
            yield Repair(RepairKind.LEFTOVER_FILE, path)
        else:
            yield Repair(RepairKind.UNCOMMITTED_OFFSETS, path)


def with_offsets(logs: Logs, offsets: Mapping[int, Offsets]) -> Logs:
    """With these offsets to read on from, by Kafka source, once the rest is repaired.

    A planned batch runs without records of theirs, because it would read records that no longer
    exist: the query reads on from `offsets` in the next batch, so that no batch id gets other
    records than before. Without any offsets to continue from, their initial offsets files are
    removed: Spark writes them again from startingOffsets.
    """
    entries = {
        n: entry.with_offsets(offsets) if n in (logs.continues_after, max(logs.offsets)) else entry
        for n, entry in logs.offsets.items()
    }
    dropped = offsets if logs.continues_after is None else ()
    initial = {n: content for n, content in logs.initial.items() if n not in dropped}
    return replace(logs, offsets=entries, initial=initial)
