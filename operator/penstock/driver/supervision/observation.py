"""The values that the supervisor decides on: what it observes, and what it remembers.

Durations are in seconds; times are on the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets, Position
from penstock.driver.spark.query_activity import NO_ACTIVITY, Activity


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The query, its session and its source at one moment.

    No field has a default, so that `runtime.observe` cannot leave one out.
    """

    now: float
    failure: Failure | None
    """The failure since the last observation."""
    partitions: int | None
    """Partitions of the source; None before they were discovered, and after a reset."""
    desired_cores: int
    requested_cores: int
    registered_cores: int
    """Cores of the registered executors, which are ready for tasks."""
    registered_executors: int
    has_session: bool
    has_query: bool
    """A query runs."""
    epoch: int | None
    """The newest epoch, or batch, with a commit in the checkpoint."""
    offsets: Offsets | None
    """Kafka's offsets at that commit; None for another source."""
    unread: frozenset[Position]
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
    wall_clock: float
    """The wall clock's lead over the monotonic clock: it changes when somebody sets the clock."""


def nothing_observed(now: float) -> Observation:
    """The observation of a driver that has not looked yet."""
    return Observation(
        now=now,
        failure=None,
        partitions=None,
        desired_cores=0,
        requested_cores=0,
        registered_cores=0,
        registered_executors=0,
        has_session=False,
        has_query=False,
        epoch=None,
        offsets=None,
        unread=frozenset(),
        planned_epoch=None,
        activity=NO_ACTIVITY,
        completed=False,
        source_outage=None,
        source_answered_at=None,
        partitions_added=False,
        warning=None,
        wall_clock=0.0,
    )


@dataclass(frozen=True)
class State:
    """What the supervisor remembers between observations."""

    failure: Failure | None = None
    """The last failure, kept after the query has recovered."""
    failed_permanently: bool = False
    """The last failure is permanent: nothing runs until the spec changes or the cause is gone."""
    retry_at: float | None = None
    """When the next attempt begins; None with `failed_permanently`: never."""
    proved: bool = False
    """The spec has committed records, or epochs for `stable_after`: in this process or an earlier
    one."""
    attempts: int = 0
    """Failures in a row: since the query was last healthy for `stable_after`."""
    query_failures: int = 0
    """Failures in a row of a query that had been started."""
    rechecks: int = 0
    """Attempts with executors since records were last committed that ended in a permanent
    failure."""
    stalls: int = 0
    """Stalls in a row: since the last commit."""
    poison_failures: int = 0
    """Failures that one record may have caused, since records were last committed."""
    restarts: int = 0
    """Starts of the query after a failure."""
    restart_pending: bool = False
    """A failure has happened since the query was last started."""
    recovering: bool = False
    """A failure has happened since the query last showed that it works."""
    checkpoint_checked_at: float | None = None
    """When the checkpoint was last repaired and checked for the next start; None: not yet."""
    query_checked: bool = False
    session_since: float | None = None
    """Since when Spark runs and the query does not; None while Spark does not run."""
    started: bool = False
    """This process has started a query."""
    committed: bool = False
    """The running query has committed an epoch, or its activity has shown that it works."""
    completed: bool = False
    epoch: int | None = None
    """The newest commit that was observed."""
    offsets: Offsets | None = None
    """Kafka's offsets at that commit."""
    committed_at: float = 0.0
    """When a new commit was last observed, or the query was started."""
    unread_since: Mapping[Position, float] = field(default_factory=dict)
    """Where the source has had a record since then that no commit includes."""
    not_read: frozenset[Position] = frozenset()
    """Those for which Spark was last restarted, and which are still not read."""
    not_read_failures: int = 0
    """Restarts in a row for partitions that are not read."""
    last_progress_at: float = 0.0
    """When the query last showed progress, was idle, or was started."""
    slowest: float = 0.0
    """The longest time between two signs of progress, beyond the policy's `silence`; commits make
    it fade."""
    commit_interval: float = 0.0
    """Smoothed time between commits; 0 while it is unknown."""
    planned_epoch: int | None = None
    looked_at: str | None = None
    """When the query had looked, at the last sign of progress while it was idle."""
    work: tuple[int, ...] | None = None
    """The work and the offsets at the last sign of progress."""
    cores_complete_at: float = 0.0
    """When the query last lacked cores, or was started: all cores have been there since."""
    tasks_complete_at: float = 0.0
    """When each partition last had a task, or the query was started."""
    source_answers_since: float = 0.0
    """When the source was last away."""
    healthy_since: float | None = None
    interruption: str | None = None
    """The reason why the running query makes no progress now: it is left running."""
    warning: str | None = None
    """The reason of the warning that was last reported."""
    wall_clock: float = 0.0
    """The wall clock's lead when it was last seen."""
    query_partitions: int = 0
    """The partitions that the running query was started with."""
    previous_cores: int = 0
    """The cores of the running query at the previous observation."""
