"""Determines where a query starts, and detects records that were deleted before it read them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.api.v1alpha1 import KafkaSource, Source, StreamSpec
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import StreamWarning
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.offsets import Offsets, first_offsets, latest, starting_offsets
from penstock.driver.kafka.partition_choice import choose
from penstock.driver.kafka.source_monitor import SourceMonitor


def check_for_data_loss(
    spec: StreamSpec,
    folder: CheckpointFolder,
    source: SourceMonitor,
    repair: RepairPlan,
    written: Offsets | None = None,
) -> StreamWarning | None:
    """A warning if records are lost and failOnDataLoss is false; raises if it is true.

    `repair` is that of the same start, which has been executed. `written` are the offsets that
    transactions have reached, which may be later ones than those of the checkpoint.
    """
    kafka = spec.source.kafka
    snapshot = source.snapshot() if kafka is not None else None
    if snapshot is None or kafka is None:
        return None
    known_ids = folder.topic_ids()
    in_log = _reached(spec.source, folder, repair) or {}
    reached = latest(in_log, written or {})
    snapshot = _to_be_read(spec, snapshot, reached)
    still_read = _still_named(reached, kafka, source)
    losses = data_loss.find_losses(still_read, known_ids, snapshot, whole=kafka.assign is None)
    if losses and kafka.fail_on_data_loss:
        raise data_loss.error(losses)
    offsets = data_loss.offsets_after_loss(still_read, losses, snapshot)
    if losses:
        folder.forget_transactions()
    if repair.after is None and losses:
        folder.save_first_offsets(offsets)
        folder.replace_offsets(repair, offsets)
    elif repair.after is not None:
        right = data_loss.of_all_partitions(offsets, snapshot)
        if offsets != in_log or data_loss.is_new_and_begins_late(offsets, snapshot):
            folder.replace_offsets(repair, right)
    if {**known_ids, **snapshot.ids} != known_ids:
        folder.save_topic_ids({**known_ids, **snapshot.ids})
    return data_loss.warning(losses) if losses else None


def _to_be_read(spec: StreamSpec, snapshot: KafkaSnapshot, reached: Offsets) -> KafkaSnapshot:
    """The snapshot without the partitions that are left out for want of cores.

    In the checkpoint they would be partitions that the query does not read, which Spark takes for
    lost ones, and at the next start partitions that the stream has read.
    """
    numbers = {topic: list(ends) for topic, ends in snapshot.newest.items()}
    chosen = choose(spec, sum(map(len, numbers.values())), numbers, reached)
    return snapshot.only(chosen.by_topic or {}) if chosen.left_out else snapshot


def save_new_topics(folder: CheckpointFolder, ids: Mapping[str, str]) -> None:
    """Stores the ids of topics that a pattern has found while the query runs."""
    known = folder.topic_ids()
    if not ids.keys() <= known.keys():
        folder.save_topic_ids({**ids, **known})


def _still_named(offsets: Offsets, kafka: KafkaSource, source: SourceMonitor) -> Offsets:
    """The offsets of the partitions that the spec still names, whether they exist or not."""
    assigned = kafka.assign
    return {
        topic: {n: at for n, at in offsets[topic].items() if not assigned or n in assigned[topic]}
        for topic in source.named(offsets)
    }


def _reached(source: Source, folder: CheckpointFolder, repair: RepairPlan) -> Offsets | None:
    """The offsets that the query reads on from; None if it has read nothing yet."""
    if repair.after is not None:
        return folder.offsets_at(repair.after)
    if repair.first_start and not depends_on_start_time(source):
        return None
    return folder.first_offsets()


def first_starting_offsets(
    spec: StreamSpec, folder: CheckpointFolder, source: SourceMonitor, repair: RepairPlan
) -> str | None:
    """Spark's startingOffsets for a stream without a commit; None: those of the spec.

    They are stored. Spark would resolve "latest" again at each start until there is a commit; and
    without readable offsets a repair has to know from where everything can be read again.
    """
    kafka = spec.source.kafka
    if repair.epoch is not None or kafka is None or _starts_by_time(kafka):
        return None
    first = folder.first_offsets()
    if depends_on_start_time(spec.source):
        newest = source.fetch_newest_offsets()
        if first is None:
            first = first_offsets(kafka.starting_offsets_by_partition, newest)
            folder.save_first_offsets(first)
        return starting_offsets(first, newest)
    snapshot = source.snapshot()
    assert snapshot is not None
    if first is None or (repair.first_start and first != snapshot.earliest):
        first = snapshot.earliest
        folder.save_first_offsets(first)
    return starting_offsets(first, snapshot.newest)


# Spark's options that replace startingOffsets, in any case.
_OTHER_START_OPTIONS = frozenset({"startingtimestamp", "startingoffsetsbytimestamp"})


def depends_on_start_time(source: Source) -> bool:
    """Whether the start position depends on the time of the first start, as `latest` does.

    Then it must be stored: Spark's continuous engine resolves it again at each start until there
    is a commit, and would skip the records in between.
    """
    kafka = source.kafka
    if kafka is None or _starts_by_time(kafka):
        return False
    return bool(kafka.starting_offsets_by_partition) or kafka.starting_offsets != "earliest"


def _starts_by_time(kafka: KafkaSource) -> bool:
    return not _OTHER_START_OPTIONS.isdisjoint(name.casefold() for name in kafka.options)
