"""What the supervisor knows: its times, what it sees at a moment, what it remembers. Plain values.

Times are in seconds, moments on the monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.driver.failures import Failure


@dataclass(frozen=True)
class Observation:
    """What the loop sees at one moment."""

    now: float
    failure: Failure | None = None
    """What has gone wrong since the last look."""
    partitions: int | None = None
    """None: not asked yet, or forgotten."""
    cores_wanted: int = 0
    cores_requested: int = 0
    cores: int = 0
    """Registered and ready for tasks."""
    executors: int = 0
    session: bool = False
    query: bool = False
    """A query runs."""
    epoch: int | None = None
    """The newest commit in the checkpoint."""
    planned: int | None = None
    """The newest offsets in the checkpoint."""
    tasks: int | None = None
    """Tasks that run, in a mode where each partition should always have one."""
    idle: bool = False
    busy: bool = False
    flowing: bool = False
    """Signs of life between commits: pulse.Pulse."""
    completed: bool = False
    """The query was to end, and has ended with its work done."""
    away: Failure | None = None
    """Why the source does not answer while the query runs on; Spark itself is silent about it."""
    outgrown: bool = False
    """There are partitions that the running query does not read."""


@dataclass(frozen=True)
class State:
    """What the supervisor remembers."""

    failure: Failure | None = None
    """The last failure, also when it is over."""
    halted: bool = False
    """That failure is permanent: nothing runs until the spec changes or its cause vanishes."""
    look_at: float | None = None
    """When a halted stream is looked at again."""
    retry_at: float | None = None
    attempts: int = 0
    """Failures since the query was last healthy for a while."""
    stuck: int = 0
    """Restarts by the watchdog since the last commit."""
    poison_failures: int = 0
    """Suspect failures since the last commit."""
    restarts: int = 0
    """Starts of the query after a failure."""
    owed: bool = False
    """A failure has happened since the query was last started."""
    checked: bool = False
    committed: bool = False
    """The running query has committed an epoch, or has shown that all is well without."""
    completed: bool = False
    epoch: int | None = None
    """The newest commit that was seen."""
    commit_at: float = 0.0
    """When the query last committed, had nothing to commit, worked on a batch, or was started."""
    pace: float = 0.0
    """Seconds from commit to commit, smoothed; 0 where that says nothing."""
    cores_at: float = 0.0
    """When the query last was short of cores, or was started."""
    tasks_at: float = 0.0
    """When each partition last had a task, or the query was started."""
    healthy_since: float | None = None
    away: bool = False
    """The source has stopped answering the running query."""
    cores_had: int = 0
    """The most cores that the running query has had."""
