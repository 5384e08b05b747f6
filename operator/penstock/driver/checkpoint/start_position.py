"""Where a query starts that has committed nothing."""

from __future__ import annotations

from dataclasses import replace

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.notes import Notes
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.kafka.offsets import Offsets, first_offsets, starting_offsets
from penstock.driver.kafka.source_monitor import SourceMonitor


def first_offsets_without_commit(
    spec: StreamSpec, notes: Notes, repair: RepairPlan
) -> Offsets | None:
    """The first offsets of a query without a commit; None if it has planned nothing yet."""
    is_stored = spec.checkpoint.start_from is not None or depends_on_start_time(spec)
    if repair.first_start and not is_stored:
        return None
    return notes.first_offsets


def note_first_look(spec: StreamSpec, folder: CheckpointFolder, source: SourceMonitor) -> None:
    """Stores where the topics end now, of a stream that was never started and cannot start now.

    It may wait for its topic for hours, and what comes meanwhile is to be read.
    """
    kafka = spec.source.kafka
    if kafka is None or not folder.is_new():
        return
    notes = folder.notes.read()
    if notes.first_offsets is not None:
        return
    known = notes.first_look
    named = [kafka.topic_pattern] if kafka.topic_pattern else kafka.topics or kafka.assign or ()
    if known is not None and set(named) <= set(known.named):
        return
    look = source.first_look()
    if look is not None:
        joined = look if known is None else known.joined(look)
        folder.notes.update(lambda notes: replace(notes, first_look=joined))


def latest_offsets(
    spec: StreamSpec, folder: CheckpointFolder, source: SourceMonitor, newest: Offsets
) -> Offsets:
    """Where a stream begins now that begins at the latest records; `newest`: the ends now."""
    look, kafka = folder.notes.read().first_look, spec.source.kafka
    if look is None or kafka is None:
        return newest
    snapshot = source.snapshot()
    assert snapshot is not None
    return look.beginning(kafka.topic_pattern, snapshot.ids, snapshot.earliest, newest)


def first_starting_offsets(
    spec: StreamSpec, folder: CheckpointFolder, source: SourceMonitor, repair: RepairPlan
) -> str | None:
    """Spark's startingOffsets for a stream without a commit; None: those of the spec.

    They are stored. Spark would resolve "latest" again at each start until there is a commit; and
    without readable offsets a repair has to know from where everything can be read again.
    """
    kafka = spec.source.kafka
    if repair.epoch is not None or kafka is None:
        return None
    notes = folder.notes.read()
    first = notes.first_offsets
    if spec.checkpoint.start_from is not None and first is not None:
        return starting_offsets(first, source.fetch_log_ends())
    if _starts_by_time(kafka):
        return None
    if depends_on_start_time(spec):
        if first is None:
            newest = source.fetch_newest_offsets()
            ends = latest_offsets(spec, folder, source, newest)
            first = first_offsets(kafka.starting_offsets_by_partition, ends)
            _note(folder, first)
        return starting_offsets(first, source.fetch_log_ends())
    snapshot = source.snapshot()
    assert snapshot is not None
    if first is None or (repair.first_start and first != snapshot.earliest):
        first = snapshot.earliest
        _note(folder, first)
    return starting_offsets(first, snapshot.log_ends)


def _note(folder: CheckpointFolder, first: Offsets) -> None:
    folder.notes.update(lambda notes: replace(notes, first_offsets=first))


# Spark's options that replace startingOffsets, in any case.
OTHER_START_OPTIONS = frozenset({"startingtimestamp", "startingoffsetsbytimestamp"})


def depends_on_start_time(spec: StreamSpec) -> bool:
    """Whether the start position depends on the time of the first start, as `latest` does.

    Then it must be stored: Spark's continuous engine resolves it again at each start until there
    is a commit, and would skip the records in between.
    """
    kafka, start = spec.source.kafka, spec.checkpoint.start_from
    if start is not None:
        return start.offsets == "latest"
    if kafka is None or _starts_by_time(kafka):
        return False
    return bool(kafka.starting_offsets_by_partition) or kafka.starting_offsets != "earliest"


def _starts_by_time(kafka: KafkaSource) -> bool:
    return not OTHER_START_OPTIONS.isdisjoint(name.casefold() for name in kafka.options)
