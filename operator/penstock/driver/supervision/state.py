"""The values that the supervisor decides on: what it observes, and what it remembers.

Durations are in seconds; times are on the monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.driver.failures import Failure


@dataclass(frozen=True)
class Observation:
    """The query, its session and its source at one moment."""

    now: float
    failure: Failure | None = None
    """The failure since the last observation."""
    partitions: int | None = None
    """Partitions of the source; None before they were discovered, and after a reset."""
    desired_cores: int = 0
    requested_cores: int = 0
    registered_cores: int = 0
    """Cores of the registered executors, which are ready for tasks."""
    registered_executors: int = 0
    has_session: bool = False
    has_query: bool = False
    """A query runs."""
    epoch: int | None = None
    """The newest epoch, or batch, with a commit in the checkpoint."""
    planned_epoch: int | None = None
    """The newest epoch, or batch, with offsets in the checkpoint."""
    active_tasks: int | None = None
    """Running tasks, in a mode where each partition always has one; else None."""
    idle: bool = False
    batch_running: bool = False
    confirmed_running: bool = False
    """Activity between commits: see activity.Activity."""
    completed: bool = False
    """An availableNow query has ended with its work done."""
    source_outage: Failure | None = None
    """Why the source does not answer. The query keeps running, and Spark reports nothing."""
    partitions_added: bool = False
    """The source has partitions that the running query does not read."""


@dataclass(frozen=True)
class State:
    """What the supervisor remembers between observations."""

    failure: Failure | None = None
    """The last failure, kept after the query has recovered."""
    failed_permanently: bool = False
    """The last failure is permanent: nothing runs until the spec changes or the cause is gone."""
    recheck_at: float | None = None
    """When to check whether the cause of a permanent failure is gone; None: never."""
    retry_at: float | None = None
    """When the back-off ends."""
    attempts: int = 0
    """Failures in a row: since the query was last healthy for `stable_after`."""
    stalls: int = 0
    """Stalls in a row: since the last commit."""
    poison_failures: int = 0
    """Failures since the last commit that one record may have caused."""
    restarts: int = 0
    """Starts of the query after a failure."""
    restart_pending: bool = False
    """A failure has happened since the query was last started."""
    query_checked: bool = False
    committed: bool = False
    """The running query has committed an epoch, or its activity has shown that it works."""
    completed: bool = False
    epoch: int | None = None
    """The newest commit that was observed."""
    last_progress_at: float = 0.0
    """When the query last committed, was idle, ran a batch, or was started."""
    commit_interval: float = 0.0
    """Smoothed time between commits; 0 while it is unknown."""
    cores_complete_at: float = 0.0
    """When the query last lacked cores, or was started: all cores have been there since."""
    tasks_complete_at: float = 0.0
    """When each partition last had a task, or the query was started."""
    healthy_since: float | None = None
    source_outage: bool = False
    """The source does not answer the running query."""
    previous_cores: int = 0
    """The cores of the running query at the previous observation."""
