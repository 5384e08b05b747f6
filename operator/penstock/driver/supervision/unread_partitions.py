"""Finds partitions that a query leaves out although its epochs commit. Pure.

A task of the continuous engine or of real-time mode that cannot reach a broker fails never: its
reader swallows the timeouts (KafkaContinuousPartitionReader.next), and epochs without its records
are committed on time (measured, Spark 4.2). A micro-batch states which records it reads, and fails
without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.record_position import Position
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.restart_policy import MAX_DOUBLINGS, RestartPolicy

PARTITIONS_NOT_READ = "PartitionsNotRead"


@dataclass(frozen=True)
class UnreadPartitions:
    """The committed offsets after which there are records that no commit includes.

    >>> unread = UnreadPartitions(since={Position("in", 3, 50): 100.0})
    >>> unread.left_out(committed_at=140.0, seconds=30.0)
    frozenset({Position(topic='in', partition=3, offset=50)})
    >>> unread.left_out(committed_at=120.0, seconds=30.0)
    frozenset()
    """

    since: Mapping[Position, float] = field(default_factory=dict)
    """When the running query was first seen to leave them out."""
    restarted_for: frozenset[Position] = frozenset()
    """Those for which Spark was last restarted, and which are still not read."""
    restarts: int = 0
    """Restarts of Spark in a row for them. Patience doubles with each."""

    def observe(self, observation: Observation, policy: RestartPolicy) -> UnreadPartitions:
        """These partitions after one more observation of a running query."""
        committed = observation.offsets
        # No offsets: another source, or a checkpoint that is being purged.
        if committed is None or not policy.mode.has_long_running_tasks:
            return self
        seen = observation.positions_behind if observation.source_outage is None else ()
        still = _still_at(self.restarted_for, committed)
        return UnreadPartitions(
            {place: self.since.get(place, observation.now) for place in _still_at(seen, committed)},
            still,
            self.restarts if still else 0,
        )

    def left_out(self, committed_at: float, seconds: float) -> frozenset[Position]:
        """Those that the newest commit has left out although they were there for so long.

        Without a new commit nothing is left out: the whole query may be suspended, or stuck.
        """
        return frozenset(
            place for place, since in self.since.items() if committed_at - since > seconds
        )

    def in_new_run(self) -> UnreadPartitions:
        """The same when a query is started: it gets its time to read them."""
        return replace(self, since={})

    def interruption(self, committed_at: float, policy: RestartPolicy) -> Failure | None:
        """Why a query whose epochs commit is not ready."""
        left_out = self.left_out(committed_at, policy.unread_after)
        if not left_out:
            return None
        return Failure(
            PARTITIONS_NOT_READ,
            f"For more than {policy.unread_after:.0f} s nothing has been read of "
            f"{_names(left_out)}, although there are records: an executor may not reach a broker. "
            f"If this lasts for {self._patience(policy):.0f} s in all, Spark restarts with new "
            "executors.",
        )

    def restart(
        self, committed_at: float, policy: RestartPolicy
    ) -> tuple[UnreadPartitions, Failure | None]:
        """The reason to restart Spark, and these partitions after such a restart.

        A new executor may be on another node.
        """
        patience = self._patience(policy)
        left_out = self.left_out(committed_at, patience)
        if not left_out:
            return self, None
        return replace(self, restarted_for=left_out, restarts=self.restarts + 1), Failure(
            PARTITIONS_NOT_READ,
            f"For more than {patience:.0f} s nothing was read of {_names(left_out)}, although "
            "there are records: an executor may not reach a broker. Spark restarts with new "
            "executors.",
        )

    def _patience(self, policy: RestartPolicy) -> float:
        return float(policy.unread_restart_after * 2 ** min(self.restarts, MAX_DOUBLINGS))


def _still_at(places: Iterable[Position], committed: Offsets) -> frozenset[Position]:
    return frozenset(
        place
        for place in places
        if committed.get(place.topic, {}).get(place.partition) == place.offset
    )


def _names(places: frozenset[Position]) -> str:
    (topic, number, offset), *others = sorted(places)
    more = f", and of {len(others)} others" if others else ""
    return f"partition {number} of {topic} from offset {offset} on{more}"
