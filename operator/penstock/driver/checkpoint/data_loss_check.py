"""Detects records that were deleted before the query read them, and says where it reads on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.driver.checkpoint.file_formats import earliest
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.notes import Notes
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.start_position import first_offsets_without_commit
from penstock.driver.failures import Failure
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.data_loss import KafkaSnapshot, Loss
from penstock.driver.kafka.offsets import Offsets, later_of_both, latest
from penstock.driver.kafka.partition_choice import choose
from penstock.driver.kafka.source_monitor import SourceMonitor

Merge = Callable[[Offsets, Offsets], Offsets]


def check_for_data_loss(
    spec: StreamSpec,
    folder: CheckpointFolder,
    source: SourceMonitor,
    repair: RepairPlan,
    written: Offsets | None = None,
    in_table: Mapping[int, Offsets] | None = None,
) -> Failure | None:
    """A warning if records are lost and failOnDataLoss is false; raises if it is true.

    `repair` is that of the same start, which has been executed. `written` are the offsets that
    transactions have reached, which may be later ones than those of the checkpoint. `in_table`:
    where a batch ends, by source, that is planned and that the sink's table has. It runs again as
    it is, if it can; else nothing of it is read again.
    """
    kafka = spec.source.kafka
    snapshot = source.snapshot() if kafka is not None else None
    if snapshot is None or kafka is None:
        return None
    notes = folder.notes.read()
    known_ids = notes.topic_ids
    starts = reads = _of_source(folder.next_offsets(), source, known_ids)
    reached = earliest(reads.values())
    if repair.continues_after is None:
        reached = first_offsets_without_commit(spec, notes, repair) or {}
    now = _to_be_read(spec, snapshot, latest(reached, written or {}))

    def read_on(offsets: Offsets, merge: Merge = latest) -> tuple[list[Loss], Offsets]:
        """What is lost after these offsets, and where to read on."""
        named = _still_named(merge(offsets, written or {}), kafka, source)
        losses = data_loss.find_losses(named, known_ids, now, whole=kafka.assign is None)
        return losses, data_loss.offsets_after_loss(named, losses, now)

    losses, offsets = read_on(reached)
    if in_table is not None:
        late = data_loss.is_new_and_begins_late(offsets, now)
        elsewhere = {n: read_on(it)[1] for n, it in reads.items()} != reads
        held = _is_held(in_table, reads, now)
        if losses or elsewhere or late or held:
            reads = {n: later_of_both(it, in_table.get(n, {})) for n, it in reads.items()}
            reached = earliest(reads.values())
            now = _to_be_read(spec, snapshot, reached)
            losses, offsets = read_on(reached)
    if losses and kafka.fail_on_data_loss:
        raise data_loss.error(losses)
    # A topic that is named again later is read from its first record, and the group's offset would
    # count more. So another group follows, as after a loss, once all other offsets are in the logs.
    removed = repair.continues_after is not None and _removes(written or {}, kafka, source)
    begins_anew = removed or bool(losses)
    starts_later = repair.continues_after is None and bool(losses)
    if starts_later:
        folder.replace_offsets(dict.fromkeys(reads, offsets))
    elif repair.continues_after is not None:
        merge = later_of_both if begins_anew else latest
        corrected = {n: read_on(of_read, merge)[1] for n, of_read in reads.items()}
        changes = corrected != starts or data_loss.is_new_and_begins_late(offsets, now)
        if changes or _is_held(folder.planned_ends(), corrected, now):
            corrected = {
                n: data_loss.of_all_partitions(of_read, now) for n, of_read in corrected.items()
            }
            folder.replace_offsets(corrected)

    def noted(notes: Notes) -> Notes:
        notes = replace(notes, topic_ids={**known_ids, **snapshot.ids})
        notes = replace(notes, first_offsets=offsets) if starts_later else notes
        return notes.without_transactions() if begins_anew else notes

    # Last: while the ids are the old ones, a topic that was created again is found again.
    folder.notes.update(noted)
    return data_loss.warning(losses) if losses else None


def _of_source(
    reads: Mapping[int, Offsets], source: SourceMonitor, known_ids: Mapping[str, str]
) -> Mapping[int, Offsets]:
    """Those of spec.source. Other sources of a transform are left alone.

    They read other topics than those that the spec names, or that the stream is known to have read.
    """
    topics = {topic for of_read in reads.values() for topic in of_read}
    own = {*source.named_by_spec(topics), *known_ids}
    of_source = {n: of_read for n, of_read in reads.items() if not own.isdisjoint(of_read)}
    is_one_source = all(of_read.keys() == topics for of_read in reads.values())
    return reads if not of_source and is_one_source else of_source


def _to_be_read(spec: StreamSpec, snapshot: KafkaSnapshot, reached: Offsets) -> KafkaSnapshot:
    """The snapshot without the partitions that are left out for want of cores.

    In the checkpoint they would be partitions that the query does not read, which Spark takes for
    lost ones, and at the next start partitions that the stream has read.
    """
    numbers = {topic: list(ends) for topic, ends in snapshot.newest.items()}
    chosen = choose(spec, sum(map(len, numbers.values())), numbers, reached)
    return snapshot.only(chosen.by_topic or {}) if chosen.left_out else snapshot


def _still_named(offsets: Offsets, kafka: KafkaSource, source: SourceMonitor) -> Offsets:
    """The offsets of the partitions that the spec still names, whether they exist or not."""
    assigned = kafka.assign
    return {
        topic: {n: at for n, at in offsets[topic].items() if not assigned or n in assigned[topic]}
        for topic in source.named_by_spec(offsets)
    }


def _is_held(
    planned: Mapping[int, Offsets], starts: Mapping[int, Offsets], now: KafkaSnapshot
) -> bool:
    """Whether a planned batch has records that an open transaction holds back from its reader.

    It was planned when the stream read uncommitted records too. Spark would take them for lost.
    """
    if now.uncommitted_ends is None:
        return False
    return any(
        at > max(now.newest.get(topic, {}).get(n, at), starts.get(source, {}).get(topic, {})[n])
        for source, ends in planned.items()
        for topic, of_topic in ends.items()
        for n, at in of_topic.items()
        if n in starts.get(source, {}).get(topic, {})
    )


def _removes(written: Offsets, kafka: KafkaSource, source: SourceMonitor) -> bool:
    """Whether transactions have written of partitions that the spec does not name any more."""
    return _still_named(written, kafka, source) != written


def save_new_topics(folder: CheckpointFolder, ids: Mapping[str, str]) -> None:
    """Stores the ids of topics that a pattern has found while the query runs."""
    folder.notes.update(lambda notes: replace(notes, topic_ids={**ids, **notes.topic_ids}))
