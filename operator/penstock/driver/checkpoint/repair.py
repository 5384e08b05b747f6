"""Repairs a checkpoint so that records are replayed and never skipped. Pure functions.

The files that are found are parsed once, each repair is a function from logs to the logs that are
wanted, and their difference is the plan (logs.py).

Two facts about ContinuousExecution require repairs before each start (measured, Spark 4.2;
docs/checkpoints.md has the layout). A start continues from the newest commit, and Spark keeps and
never overwrites an `offsets/N` without a commit, so the next run would commit its own epoch N under
offsets that it has not reached: lost records. And with Spark's own file manager a leftover
`commits/.N.crc` makes the commit of N fail in an endpoint that swallows the error: the query runs
on and never commits again.

The micro-batch engine writes `offsets/N` after batch N - 1, and a restart runs batch N again with
the same offsets, so these are kept. The real-time engine writes `offsets/N` when batch N is done,
right before its commit. Its start removes all offsets after the newest commit, also if there is
none (MicroBatchExecution.initializeExecution calls offsetLog.purgeAfter): without commits it would
begin anew. So it gets a commit for every batch that is known to be done, as the continuous engine
does.

"Any query can be restarted with any trigger" (Structured Streaming, "Continuous Processing") holds
for Kafka, whose offsets are the same in every mode, after two repairs (measured with Spark 4.2):

- The continuous engine leaves the line of metadata in offsets/N empty, and the micro-batch engine
  then fails with a NullPointerException because it finds no watermark (populateStartOffsets).
- Async progress tracking leaves gaps in offsets/N. Without it, a start needs the predecessor of the
  newest offsets/N ("batch N-1 doesn't exist").

Rate and socket have other offsets for each engine, so such a switch is refused. So is one to the
continuous engine, which ignores state. (Whether another query in batches would drop it shows when
it is planned: spark/query.py.)
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.api.modes import Mode, execution_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.contract.remedies import REMEDIES
from penstock.driver.checkpoint import batch_ids
from penstock.driver.checkpoint.file_formats import (
    EMPTY_METADATA_LINE,
    Entry,
    Files,
    checked_file,
    checksum_path,
)
from penstock.driver.checkpoint.logs import COMMIT, METADATA, Logs, Step, diff, numbers
from penstock.driver.checkpoint.state_versions import Store, newest_loadable, not_loadable
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
    after: int | None = field(default=None, compare=False)
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
    stores: Collection[Store] = (),
) -> RepairPlan:
    """The repair that a start of this spec needs, with any engine before it.

    `state`: the checkpoint contains the state of the previous query. `first`: the offsets of the
    stream's first start, if they are known. `keep_ids`: a sink may recognise a batch by its id.
    `stores`: those of the state, if their format is known.
    Raises CheckpointDamaged if the progress is lost, CheckpointHoldsState or
    CheckpointOfAnotherMode if this spec cannot continue.
    """
    mode, is_kafka = spec.trigger.mode, spec.source.kafka is not None
    found = Logs.read(files, is_kafka=is_kafka)
    may_start_over = first is not None and not state and not keep_ids
    # Transactions know what is written, so a batch may run again with other records: one that takes
    # too long for a transaction would else run again for ever.
    keeps_plans = not (mode.has_long_running_tasks or spec.sink.exactly_once)
    wanted = _continue(
        files, found, keeps_plans=keeps_plans, may_start_over=may_start_over, state=state
    )
    if not keep_ids:
        wanted = _without_other_partitions(wanted, spec)
    if state and wanted.epoch is not None and not execution_of(spec).in_batches:
        _refuse_to_drop_state()
    if wanted.epoch is not None:
        _refuse_other_format(wanted.offsets[wanted.epoch], spec)
    removed: tuple[Step, ...] = ()
    wanted, undone = _without_repartition(wanted)
    lost = _lost(stores, wanted)
    if lost:
        wanted = _with_whole_state(wanted, lost, stores, spec, keep_ids=keep_ids)
    if lost or undone or _has_later_state(stores, wanted):
        removed = _made_again(found, wanted, stores)
    if keep_ids:
        # No sink gets the batch of a repartition.
        told = {path: content for path, content in files.items() if path not in undone}
        wanted = batch_ids.keep_ids(told, wanted, spec, first, state=state)
    if mode is not Mode.CONTINUOUS:
        wanted = _with_metadata_lines(wanted)
        if mode is not Mode.ASYNC:
            wanted = _without_gap(files, wanted)
    wanted = with_metadata(files, wanted)
    steps = _steps(files, found, wanted, removed)
    return RepairPlan(
        steps,
        wanted.epoch,
        (*_removals(files, found, wanted, steps), *wanted.added),
        wanted.after,
        first_start=is_new(files),
    )


def is_new(files: Files) -> bool:
    """Whether neither offsets nor a commit was ever written."""
    return not numbers(files, "commits") and not numbers(files, "offsets")


def _continue(
    files: Files, found: Logs, *, keeps_plans: bool, may_start_over: bool, state: bool
) -> Logs:
    """Without what a start could not continue from, or would skip records with."""
    epoch, planned = found.epoch, _planned_batches(files, found, state=state)
    if epoch is None and not planned and not (may_start_over and 0 in numbers(files, "offsets")):
        refuse_to_start_over(files)
    lost_commits = epoch is None and max(planned, default=0) > 0
    done: dict[int, bytes] = {}
    if not keeps_plans:
        if lost_commits and len(planned) > 1:  # the newest shows that the one before it is done
            epoch = sorted(planned)[-2]
            done = {epoch: COMMIT}
        planned = set()
    last = -1 if epoch is None else epoch
    offsets = {n: entry for n, entry in found.offsets.items() if n <= last or n in planned}
    # Older commits without offsets are kept: Spark purges offsets first.
    commits = {n: commit for n, commit in found.commits.items() if n <= last} | done
    lost = Repair(RepairKind.LOST_COMMITS, f"commits/{epoch}" if done else "commits")
    added = (lost,) if lost_commits else ()
    return replace(found, offsets=offsets, commits=commits, added=added)


def _without_other_partitions(wanted: Logs, spec: StreamSpec) -> Logs:
    """Without a first batch that is planned with another number of partitions than spec's.

    Spark would keep that number (OffsetSeqMetadata.setSessionConf).
    """
    first, asked = wanted.offsets.get(0), spec.checkpoint.state_partitions
    if first is None or asked is None or first.shuffle_partitions in (None, asked):
        return wanted
    is_planned = wanted.epoch is None and wanted.after is None
    return replace(wanted, offsets={}) if is_planned else wanted


def _without_repartition(wanted: Logs) -> tuple[Logs, Collection[str]]:
    """Without a repartition of the state that has not ended, and the files of its plan.

    Spark starts no query before it has (STREAMING_UNFINISHED_REPARTITION_DETECTED, 4.2), and it
    could never end, if Spark cannot divide this state.
    """
    newest, epoch = max(wanted.offsets, default=None), wanted.epoch
    if newest is None or epoch is None or newest == epoch:
        return wanted, ()
    before, planned = (wanted.offsets[n].shuffle_partitions for n in (epoch, newest))
    if before is None or planned is None or before == planned:
        return wanted, ()
    path = f"offsets/{newest}"
    return wanted.up_to(epoch), (path, checksum_path(path))


def without_plan(files: Files, stores: Collection[Store]) -> tuple[Step, ...]:
    """The steps that remove what is planned after the newest commit."""
    found = Logs.read(files)
    if found.epoch is None:
        return ()
    wanted = found.up_to(found.epoch)
    return _steps(files, found, wanted, _made_again(found, wanted, stores))


def _steps(files: Files, found: Logs, wanted: Logs, removed: tuple[Step, ...]) -> tuple[Step, ...]:
    """All steps to the logs that are wanted; `removed` comes first."""
    gone = dict(removed)
    left = {path: content for path, content in files.items() if path not in gone}
    return (*removed, *diff(left, found, wanted))


def _lost(stores: Collection[Store], wanted: Logs) -> list[Store]:
    """The stores that lack the state of the newest commit."""
    if wanted.epoch is None:
        return []
    return not_loadable(stores, wanted.epoch, wanted.offsets[wanted.epoch].shuffle_partitions)


def _with_whole_state(
    wanted: Logs,
    lost: Sequence[Store],
    stores: Collection[Store],
    spec: StreamSpec,
    *,
    keep_ids: bool,
) -> Logs:
    """Up to the newest batch whose state can be loaded: those after it run again.

    Raises CheckpointDamaged if there is none, or if they cannot run again.
    """
    done = wanted.offsets.keys() & wanted.commits.keys()
    batches = {n: wanted.offsets[n].shuffle_partitions for n in done}
    target = newest_loadable(stores, batches)
    why = ""
    if target is None:
        why = "that of no earlier batch is whole in every partition"
    elif spec.source.kafka is None:
        why = "the source cannot send the records of the batches since then again"
    elif keep_ids:
        why = "the sink may know the batches since then, and would skip them if they ran again"
    if target is None or why:
        raise DriverError(
            Failure(
                CHECKPOINT_DAMAGED,
                f"The state of the newest batch is not whole ({lost[0].path}), and {why}. "
                f"{REMEDIES[CHECKPOINT_DAMAGED].action}",
                permanent=True,
                recoverable=True,
            )
        )
    added = (Repair(RepairKind.LOST_STATE, store.path) for store in lost)
    return replace(wanted.up_to(target), added=(*wanted.added, *added))


def _has_later_state(stores: Collection[Store], wanted: Logs) -> bool:
    """Whether there is state of batches that run again, with other records than before."""
    epoch = wanted.epoch
    if epoch is None or epoch != max(wanted.offsets):
        return False
    return any(store.after(epoch + 1) for store in stores)


def _made_again(found: Logs, wanted: Logs, stores: Collection[Store]) -> tuple[Step, ...]:
    """The steps that remove the versions and the plans of the batches that run again.

    Spark could load a part of the old state later on. And of several planned batches it runs the
    newest alone: so plans go before their commits, until whose end each start finds the same lost.
    """
    assert wanted.epoch is not None
    version = wanted.epoch + 1
    state = (path for store in stores for path in store.after(version))
    plans = (f"offsets/{n}" for n in sorted(found.offsets, reverse=True) if n > wanted.epoch)
    return tuple((path, None) for path in (*state, *plans))


def _planned_batches(files: Files, found: Logs, *, state: bool) -> set[int]:
    """The batches after the last commit that the micro-batch engine can run again as planned.

    Batch N runs after N - 1. So these are the batches in rising order up to the first file that is
    damaged, was written by the continuous engine, or moves backward; or that begins where missing
    offsets ended. Async progress tracking skips numbers, but keeps no state, and commits nothing
    without its offsets.

    Without any commit, the newest offsets still show that all earlier batches are done. They are
    kept if they belong to the first batch, or if the offsets before them are known.
    """
    epoch, kept, commits = found.epoch, set[int](), numbers(files, "commits")
    before = None if epoch is None else found.offsets[epoch]
    for n in sorted(n for n in numbers(files, "offsets") if epoch is None or n > epoch):
        entry = found.offsets.get(n)
        if entry is None or entry.is_continuous or (before and entry.moves_back(before)):
            if epoch is None:
                continue
            break
        if before and n - 1 not in found.offsets and (state or n - 1 in commits):
            break
        kept.add(n)
        before = entry
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


def _refuse_to_drop_state() -> None:
    raise DriverError.permanent(
        "CheckpointHoldsState",
        "The previous query kept state in this checkpoint, and this query keeps none. Results "
        "that the previous query has not written yet would be lost. Restore the previous query "
        "and trigger; or begin a new checkpoint where this one is: another "
        "checkpoint.generation, with startFrom.generation.",
    )


def _refuse_other_format(newest: Entry, spec: StreamSpec) -> None:
    mode = spec.trigger.mode
    portable = spec.source.rate is None and spec.source.socket is None
    if portable or newest.is_continuous == (mode is Mode.CONTINUOUS):
        return
    written_by = "trigger.continuous" if newest.is_continuous else "a micro-batch engine"
    raise DriverError.permanent(
        "CheckpointOfAnotherMode",
        f"{mode} cannot continue from this checkpoint: the offsets of this source were "
        f"written by {written_by}, in another format (only Kafka has the same format in every "
        "mode). Restore that trigger, or begin another checkpoint.generation, where the source "
        "starts anew.",
    )


def _with_metadata_lines(wanted: Logs) -> Logs:
    lines = {
        n: replace(entry, metadata=EMPTY_METADATA_LINE)
        for n, entry in sorted(wanted.offsets.items())
        if entry.is_continuous
    }
    return wanted.writing(lines, RepairKind.METADATA_LINE)


def _without_gap(files: Files, wanted: Logs) -> Logs:
    """Adds the predecessor of the newest offsets, with the offsets from before the gap.

    If the newest offsets are committed, Spark reads the predecessor and does not use it. If they
    are only planned, the batch runs again from there and replays all batches of the gap.

    Spark's own way is to set the interval to 0 until two batches are committed, and then to turn
    tracking off. That needs new records, and a driver that meanwhile runs with other settings than
    its spec. This repair results in the same files at once.
    """
    newest = max(wanted.offsets, default=0)
    if newest == 0 or newest - 1 in wanted.offsets:
        return wanted
    before = max((n for n in wanted.offsets if n < newest), default=newest)
    # Async tracking never commits a batch without offsets, so a commit here means damage.
    damaged = f"commits/{newest - 1}" in files
    kind = RepairKind.MISSING_OFFSETS if damaged else RepairKind.ASYNC_GAP
    return wanted.writing({newest - 1: wanted.offsets[before]}, kind)


def with_metadata(files: Files, wanted: Logs) -> Logs:
    """With metadata, if Spark would refuse to start without it.

    Spark cannot read broken metadata, and refuses logs without metadata
    (STREAMING_CHECKPOINT_MISSING_METADATA_FILE). It contains only the query's id, which is derived
    from the other files, so that a repeated repair writes the same id.
    """
    others = wanted.files.values()
    if wanted.metadata is not None or not others:
        return wanted
    made = f'{{"id":"{uuid.uuid5(_QUERIES, b"".join(others).hex())}"}}'.encode()
    added = () if METADATA in files else (Repair(RepairKind.MISSING_METADATA, METADATA),)
    return replace(wanted, metadata=made, added=(*wanted.added, *added))


def _removals(files: Files, found: Logs, wanted: Logs, steps: Collection[Step]) -> Iterator[Repair]:
    """Why files that were found are not kept."""
    last = max(wanted.offsets, default=-1)
    # Those whose state is lost: that is said in one.
    done = {n for n in found.offsets.keys() & found.commits.keys() if n > last}
    touched, whole, kept = dict(steps), found.files, wanted.files
    for path in filter(files.__contains__, touched):
        log, _, name = path.rpartition("/")
        if name.startswith("."):
            if checked_file(path) not in touched:
                yield Repair(RepairKind.LEFTOVER_FILE, path)
        elif path not in whole:
            yield Repair(RepairKind.TORN_FILE, path)
        elif log and int(name) in done:
            continue
        elif log == "commits":
            yield Repair(RepairKind.COMMIT_WITHOUT_OFFSETS, path)
        elif 0 <= last <= int(name) and found.offsets[int(name)].moves_back(wanted.offsets[last]):
            yield Repair(RepairKind.BACKWARD_OFFSETS, path)
        elif path not in kept:
            yield Repair(RepairKind.UNCOMMITTED_OFFSETS, path)


def with_offsets(found: Logs, offsets: Mapping[int, Offsets]) -> Logs:
    """With these offsets to read on from, by Kafka source, once the rest is repaired.

    A planned batch runs without records of theirs, because it would read records that no longer
    exist: the query reads on from `offsets` in the next batch, so that no batch id gets other
    records than before. Without any offsets to continue from, their initial offsets files are
    removed: Spark writes them again from startingOffsets.
    """
    entries = {
        n: entry.with_offsets(offsets) if n in (found.after, max(found.offsets)) else entry
        for n, entry in found.offsets.items()
    }
    gone = offsets if found.after is None else ()
    initial = {n: content for n, content in found.initial.items() if n not in gone}
    return replace(found, offsets=entries, initial=initial)
