"""Where spec.checkpoint.startFrom says that a generation begins, until it has committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.checkpoint import StartFrom
from penstock.contract.remedies import REMEDIES
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.start_position import latest_offsets
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import EARLIEST, Offsets, first_offsets, later_of_both
from penstock.driver.kafka.source_monitor import SourceMonitor

START_POSITION_UNKNOWN = "StartPositionUnknown"


def stored_form(start: StartFrom) -> dict[str, Any]:
    """A startFrom as it is stored beside the first offsets, however it is written.

    >>> stored_form(StartFrom(timestamp="1970-01-01T01:00:01+01:00"))
    {'timestamp': 1000}
    """
    if start.timestamp_ms is not None:
        return {"timestamp": start.timestamp_ms}
    return start.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def moves(start: StartFrom, *, planned: bool) -> bool:
    """Whether a startFrom names another place by now, for a generation that has not committed.

    An earlier generation may have run once more, after a rollback. The earliest records, and
    another application, count again until a batch is planned.
    """
    if start.generation is not None:
        return True
    return not planned and (start.consumer_group is not None or start.offsets == "earliest")


@dataclass(frozen=True)
class Beginning:
    """First offsets, and the ids of their topics."""

    offsets: Offsets
    topic_ids: Mapping[str, str]

    def includes(self, other: Beginning) -> bool:
        """Whether nothing need be stored for the other one."""
        return self.offsets == other.offsets and other.topic_ids.items() <= self.topic_ids.items()

    def updated(self, named: Beginning, exist: Mapping[str, str], *, moves: bool) -> Beginning:
        """Where a generation that has begun here, and has not committed, begins now.

        That is what startFrom names now: for topics that were not created again only if it moves,
        and never before what is stored, since a loss of records there was accepted. `exist`: the
        ids of the topics now.

        >>> stored = Beginning({"in": {0: 7}}, {"in": "a"})
        >>> stored.updated(Beginning({"in": {0: 9}}, {}), {"in": "a"}, moves=True).offsets
        {'in': {0: 9}}
        >>> stored.updated(Beginning({"in": {0: 9}}, {}), {"in": "a"}, moves=False).offsets
        {'in': {0: 7}}
        >>> stored.updated(Beginning({"in": {0: 3}}, {"in": "b"}), {"in": "b"}, moves=True)
        Beginning(offsets={'in': {0: 3}}, topic_ids={'in': 'b'})
        """
        both = self.offsets.keys() & named.offsets.keys()
        kept = {topic for topic in both if self.topic_ids.get(topic) == exist.get(topic)}
        offsets = dict(named.offsets)
        for topic in kept:
            here, now = {topic: self.offsets[topic]}, {topic: named.offsets[topic]}
            counts = moves and named.topic_ids.get(topic) in (None, exist.get(topic))
            offsets |= later_of_both(now, here) if counts else here
        ids = {topic: exist[topic] for topic in kept & exist.keys()}
        return Beginning(offsets, {**named.topic_ids, **ids})


def offsets_in_kafka(
    start: StartFrom, spec: StreamSpec, folder: CheckpointFolder, source: SourceMonitor
) -> Offsets:
    """What a start that names no earlier generation names in Kafka.

    Raises StartPositionUnknown if the consumer group has committed nothing there.
    """
    if start.timestamp_ms is not None:
        return source.fetch_offsets_at(start.timestamp_ms)
    snapshot = source.snapshot()
    assert snapshot is not None
    earliest = snapshot.earliest
    if start.consumer_group is not None:
        committed = source.fetch_group_offsets(start.consumer_group)
        if committed.keys().isdisjoint(snapshot.newest):
            raise start_position_unknown(
                f"The consumer group {start.consumer_group} has committed no offset of a topic "
                "that the stream reads, or Kafka has forgotten it (offsets.retention.minutes)."
            )
        return {
            topic: {n: committed.get(topic, {}).get(n, offset) for n, offset in of.items()}
            for topic, of in earliest.items()
        }
    if start.offsets == "earliest":
        return earliest
    named = first_offsets(
        start.offsets_by_partition or {},
        latest_offsets(spec, folder, source, snapshot.newest),
        "checkpoint.startFrom.offsetsByPartition",
    )
    return {
        topic: {n: earliest[topic][n] if at == EARLIEST else at for n, at in of.items()}
        for topic, of in named.items()
    }


def start_position_unknown(message: str) -> DriverError:
    """The error for a place that a startFrom names, and that is not there."""
    return DriverError(
        Failure(
            START_POSITION_UNKNOWN,
            f"{message} {REMEDIES[START_POSITION_UNKNOWN].action}",
            permanent=True,
            recoverable=True,
        )
    )
