"""Where a query begins: no sooner than its checkpoint says, and no later without a word."""

from __future__ import annotations

from penstock.api.v1alpha1 import Source, StreamSpec
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.failures import Failure
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.offsets import first_offsets, starting_offsets
from penstock.driver.kafka.source_watch import SourceWatch


def check_for_loss(
    spec: StreamSpec, folder: CheckpointFolder, source: SourceWatch, epoch: int | None
) -> Failure | None:
    """What was lost and is accepted; raises if unread records are gone and the spec accepts none.

    `epoch` is the commit that the query goes on from; None begins at the first.
    """
    kafka = spec.source.kafka
    held = source.held() if kafka is not None else None
    if held is None or kafka is None:
        return None
    known = folder.topic_ids()
    reached = folder.first_offsets() if epoch is None else folder.committed_offsets()
    losses = data_loss.find(reached or {}, known, held)
    if losses and kafka.fail_on_data_loss:
        raise data_loss.refused(losses)
    if losses and reached is not None:
        put_right = data_loss.realigned(reached, losses, held)
        (folder.keep_first_offsets if epoch is None else folder.go_on_from)(put_right)
    if {**known, **held.ids} != known:
        folder.keep_topic_ids({**known, **held.ids})
    return data_loss.accepted(losses) if losses else None


def first_start(spec: StreamSpec, folder: CheckpointFolder, source: SourceWatch) -> str | None:
    """Spark's startingOffsets for a stream without a commit; None leaves it to the spec's own word.

    Spark would ask Kafka for "latest" anew at each start until there is a commit.
    """
    kafka = spec.source.kafka
    if kafka is None or not begins_at_a_moment(spec.source):
        return None
    newest = source.newest_now()
    first = folder.first_offsets()
    if first is None:
        first = first_offsets(kafka.starting_offsets_by_partition, newest)
        folder.keep_first_offsets(first)
    return starting_offsets(first, newest)


# Spark's options that say where a stream begins instead of startingOffsets.
_OWN_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp")


def begins_at_a_moment(source: Source) -> bool:
    """Whether where the first start begins depends on when that is, as `latest` does.

    It must be remembered then: Spark's continuous engine asks anew at each start until there is a
    commit, and would skip what came in between.
    """
    kafka = source.kafka
    if kafka is None or any(name in kafka.options for name in _OWN_STARTS):
        return False
    return bool(kafka.starting_offsets_by_partition) or kafka.starting_offsets == "latest"
