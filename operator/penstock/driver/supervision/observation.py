"""What the supervisor sees at one moment. Times are in seconds on the monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.record_position import Position
from penstock.driver.spark.query_activity import NO_ACTIVITY, Activity


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The query, its session and its source at one moment.

    No field has a default, so that `QueryRuntime.observe` cannot leave one out.
    """

    now: float
    failure: Failure | None
    """The failure since the last observation."""
    partitions: int | None
    """Partitions of the source; None before they were discovered, and after a reset."""
    slots: int
    """Tasks of the query that run at once, and keep their cores."""
    desired_cores: int
    requested_cores: int
    registered_cores: int
    """Cores of the registered executors, which are ready for tasks."""
    registered_executors: int
    state_partitions: int | None
    """Partitions of the state of the query that runs; None if it keeps none."""
    repartitions_state: bool
    """The state gets another number of partitions before the query starts."""
    runs_one_batch: bool
    """The query runs only the batch that comes before that."""
    has_session: bool
    has_query: bool
    """A query runs."""
    epoch: int | None
    """The newest epoch, or batch, with a commit in the checkpoint."""
    offsets: Offsets | None
    """Kafka's offsets at that commit; None for another source."""
    positions_behind: frozenset[Position]
    """Committed offsets, of the last few seconds, after which the source has a record."""
    planned_epoch: int | None
    """The newest epoch, or batch, with offsets in the checkpoint."""
    activity: Activity
    """What the query shows between two commits."""
    completed: bool
    """An availableNow query has ended with its work done."""
    source_outage: Failure | None
    """Why the source does not answer. The query keeps running, and Spark reports nothing."""
    source_answered_at: float | None
    """When the source last answered; None if nothing is asked."""
    partitions_added: bool
    """The source has partitions that the running query does not read."""
    warning: Failure | None
    """What the running query does without, and what to do about it."""
    dead_letters: int
    """Dead letters of the last minute, or right before the record of the failure."""
    wall_clock: float
    """The wall clock's lead over the monotonic clock: it changes when somebody sets the clock."""


def nothing_observed(now: float) -> Observation:
    """The observation of a driver that has not looked yet."""
    return Observation(
        now=now,
        failure=None,
        partitions=None,
        slots=0,
        desired_cores=0,
        requested_cores=0,
        registered_cores=0,
        registered_executors=0,
        state_partitions=None,
        repartitions_state=False,
        runs_one_batch=False,
        has_session=False,
        has_query=False,
        epoch=None,
        offsets=None,
        positions_behind=frozenset(),
        planned_epoch=None,
        activity=NO_ACTIVITY,
        completed=False,
        source_outage=None,
        source_answered_at=None,
        partitions_added=False,
        warning=None,
        dead_letters=0,
        wall_clock=0.0,
    )
