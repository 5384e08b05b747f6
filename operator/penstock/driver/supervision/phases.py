"""The phases of a stream's query, each with what is valid in it. Times are on the monotonic clock.

Starting -> Running -> Completed
   ^           |
   |           v  (a failure, from any phase)
   +--- BackingOff, or Failed
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.modes import Mode
from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.supervision.history import History
from penstock.driver.supervision.observation import Observation


@dataclass(frozen=True, kw_only=True)
class Starting:
    """The steps to a running query: source, checkpoint, Spark, plan, cores."""

    after: Failure | None = None
    """The failure since which no query has been started."""
    checkpoint_checked_at: float | None = None
    """When the checkpoint was repaired and checked for this start; None: not yet."""
    query_checked: bool = False
    copies: bool = False
    """The last step was to copy the record of `State.uncopied`."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """One run of the query, from its start to its end."""

    after: Failure | None
    """The failure before this run, until the query shows that it works."""
    confirmed: bool = False
    """It has committed an epoch, or its activity has shown that it works."""
    committed: bool = False
    """It has committed an epoch."""
    committed_records: bool = False
    """It has committed an epoch with records: its code is loaded, and its clients are connected."""
    fruitful: bool = False
    """It has committed records, or epochs while it was healthy for `stable_after`."""
    slots: int
    """The tasks that it was started with, in a mode where they keep their cores."""
    cores: int
    """The registered cores at the previous observation."""
    wall_clock: float
    """The wall clock's lead at the previous observation."""
    epoch: int | None
    """The newest commit that was observed."""
    offsets: Offsets | None
    """Kafka's offsets at that commit."""
    committed_at: float
    """When a new commit was last observed, or the query was started."""
    uncommitted_since: float | None
    """Since when it may have written what is not committed: its start, or a commit that counts. In
    the modes whose tasks take turns since a batch has had tasks; None between two batches."""
    probed_at: float = 0.0
    """When it was last tried whether the checkpoint can be written."""
    commit_interval: float = 0.0
    """Smoothed time between commits; 0 while it is unknown."""
    progress_at: float
    """When the query last showed progress, looked for records in vain, or was started."""
    planned_epoch: int | None
    work: tuple[int, ...] | None = None
    """The work at the last sign of progress."""
    idle_trigger: str | None = None
    """The newest trigger that has found no records."""
    cores_complete_since: float
    tasks_complete_since: float
    """Since when all of them have run."""
    source_answers_since: float
    healthy_since: float | None = None
    interruption: str | None = None
    """The reason why the query, which is left running, is not ready now."""
    warning: str | None = None
    """The reason of the warning that was last reported."""

    @classmethod
    def begin(cls, observation: Observation, after: Failure | None, mode: Mode) -> Running:
        """The run of a query that is started now."""
        now = observation.now
        return cls(
            after=after,
            slots=observation.slots,
            cores=observation.registered_cores,
            wall_clock=observation.wall_clock,
            epoch=observation.epoch,
            offsets=observation.offsets,
            committed_at=now,
            uncommitted_since=now if mode.has_long_running_tasks else None,
            progress_at=now,
            planned_epoch=observation.planned_epoch,
            cores_complete_since=now,
            tasks_complete_since=now,
            source_answers_since=now,
        )


@dataclass(frozen=True)
class BackingOff:
    """Nothing happens until the next attempt."""

    failure: Failure
    retry_at: float


@dataclass(frozen=True)
class Failed:
    """Nothing runs until the spec changes, or until the cause is gone."""

    failure: Failure
    retry_at: float | None
    """When the cause is looked at again, by the steps that need no executors; None: never."""
    checkpoint_checked_at: float | None = None
    """When such a look has found nothing wrong with the checkpoint."""
    attempts: int | None = None
    """The failures in a row that restart.maxAttempts does not allow; None: it ended nothing."""


@dataclass(frozen=True)
class Completed:
    """The query of trigger.availableNow has ended with its work done."""

    committed: bool
    """It has committed; else it has found nothing to do."""


Phase = Starting | Running | BackingOff | Failed | Completed


@dataclass(frozen=True)
class State:
    """What the supervisor remembers between observations."""

    phase: Phase = Starting()
    history: History = History()  # noqa: RUF009
    session_since: float | None = None
    """Since when Spark has been running."""
    ran_at: float | None = None
    """When a query last ran."""
    uncopied: Failure | None = None
    """The second failure over a record that is to become a dead letter. No query is started before
    the copy is made: it would fail over the record again, and write the others again."""

    @property
    def failure(self) -> Failure | None:
        """The failure from which the query has not recovered yet."""
        match self.phase:
            case Starting(after=failure) | Running(after=failure):
                return failure
            case BackingOff(failure=failure) | Failed(failure=failure):
                return failure
            case Completed():
                return None

    @property
    def retry_at(self) -> float | None:
        """When the next attempt begins; None: now, or never."""
        return self.phase.retry_at if isinstance(self.phase, BackingOff | Failed) else None

    @property
    def committed(self) -> bool:
        """Whether the query of this moment has committed an epoch."""
        return isinstance(self.phase, Running | Completed) and self.phase.committed

    @property
    def query_runs(self) -> bool:
        """Whether a query runs, and not only to recover from a failure."""
        match self.phase:
            case Running(after=failure, interruption=interruption):
                return failure is None or interruption is not None
            case _:
                return False
