"""What the supervisor knows: its times, what it sees at a moment, what it remembers. Plain values.

Times are in seconds, moments on the monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.driver.failures import Trouble
from penstock.driver.triggers import Mode, mode, trigger_interval_ms
from penstock.stream.quantities import milliseconds
from penstock.stream.spec import StreamSpec


@dataclass(frozen=True)
class Policy:
    """How long to wait for what."""

    interval: float
    """The trigger's own: how often a commit is due."""
    continuous: bool = False
    """Whether every epoch commits and every partition has a task that always runs."""
    max_attempts: int | None = None
    """Failures in a row before a passing one is permanent; None: never."""
    backoff_base: float = 1.0
    backoff_cap: float = 60.0
    stable_after: float = 60.0
    """After so long without a failure the back-off begins anew."""
    look_again: float = 30.0
    """The pace at which a cause that may vanish is looked at again."""
    stuck_at_most: int = 3
    """Restarts by the watchdog in a row, before the process is given up."""
    suspect_at_most: int = 10
    """Failures about a record in a row, without a commit between, before they are permanent."""
    step: float = 60.0
    """How long one step may take before the driver counts as hung."""

    @classmethod
    def of(cls, spec: StreamSpec) -> Policy:
        """What the spec asks for."""
        return cls(
            interval=trigger_interval_ms(spec) / 1000,
            continuous=mode(spec) is Mode.CONTINUOUS,
            max_attempts=spec.restart.max_attempts,
            stable_after=milliseconds(spec.restart.stable_after) / 1000,
        )

    @property
    def patience(self) -> float:
        """How long a query with all its cores may go without a commit."""
        return max(60.0, 10 * self.interval)

    @property
    def patience_for_cores(self) -> float:
        """How long a running query may go without a commit while it is short of cores."""
        return max(300.0, self.patience)

    @property
    def patience_with_commits(self) -> float:
        """How long offsets may be planned without one of them being committed."""
        return max(15.0, 3 * self.interval)

    @property
    def patience_for_tasks(self) -> float:
        """How long a partition may go without a task; Spark re-plans between epochs only."""
        return max(30.0, 3 * self.interval)

    def delay(self, attempts: int, jitter: float) -> float:
        """Exponential back-off with full jitter; `jitter` is in [0, 1)."""
        return jitter * min(self.backoff_cap, self.backoff_base * 2.0 ** min(attempts - 1, 30))


@dataclass(frozen=True)
class Sight:
    """What the loop sees at one moment."""

    now: float
    trouble: Trouble | None = None
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
    away: Trouble | None = None
    """Why the source does not answer while the query runs on; Spark itself is silent about it."""
    outgrown: bool = False
    """There are partitions that the running query does not read."""


@dataclass(frozen=True)
class State:
    """What the supervisor remembers."""

    trouble: Trouble | None = None
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
    suspicions: int = 0
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
