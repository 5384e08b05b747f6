"""Determines where a query starts, and detects records that were deleted before it read them."""

from __future__ import annotations

from penstock.api.v1alpha1 import Source, StreamSpec
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.failures import Failure
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.offsets import first_offsets, starting_offsets
from penstock.driver.kafka.source_monitor import SourceMonitor


def check_for_data_loss(
    spec: StreamSpec, folder: CheckpointFolder, source: SourceMonitor, epoch: int | None
) -> Failure | None:
    """A warning if records are lost and failOnDataLoss is false; raises if it is true.

    `epoch` is the commit that the query continues from; None: its first start, or no commit yet.
    """
    kafka = spec.source.kafka
    snapshot = source.snapshot() if kafka is not None else None
    if snapshot is None or kafka is None:
        return None
    known_ids = folder.topic_ids()
    reached = folder.first_offsets() if epoch is None else folder.progress.committed_offsets()
    losses = data_loss.find_losses(reached or {}, known_ids, snapshot)
    if losses and kafka.fail_on_data_loss:
        raise data_loss.error(losses)
    if losses and reached is not None:
        offsets = data_loss.offsets_after_loss(reached, losses, snapshot)
        if epoch is None:
            folder.save_first_offsets(offsets)
        else:
            folder.replace_committed_offsets(offsets)
    if {**known_ids, **snapshot.ids} != known_ids:
        folder.save_topic_ids({**known_ids, **snapshot.ids})
    return data_loss.warning(losses) if losses else None


def first_starting_offsets(
    spec: StreamSpec, folder: CheckpointFolder, source: SourceMonitor
) -> str | None:
    """Spark's startingOffsets for a stream without a commit; None: those of the spec.

    Spark would resolve "latest" again at each start until there is a commit.
    """
    kafka = spec.source.kafka
    if kafka is None or not depends_on_start_time(spec.source):
        return None
    newest = source.fetch_newest_offsets()
    first = folder.first_offsets()
    if first is None:
        first = first_offsets(kafka.starting_offsets_by_partition, newest)
        folder.save_first_offsets(first)
    return starting_offsets(first, newest)


# Spark's options that replace startingOffsets.
_OTHER_START_OPTIONS = ("startingTimestamp", "startingOffsetsByTimestamp")


def depends_on_start_time(source: Source) -> bool:
    """Whether the start position depends on the time of the first start, as `latest` does.

    Then it must be stored: Spark's continuous engine resolves it again at each start until there
    is a commit, and would skip the records in between.
    """
    kafka = source.kafka
    if kafka is None or any(name in kafka.options for name in _OTHER_START_OPTIONS):
        return False
    return bool(kafka.starting_offsets_by_partition) or kafka.starting_offsets != "earliest"
