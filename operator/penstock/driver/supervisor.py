"""What to do next about one query. Pure: (state, what is seen) -> (state, action).

The loop in `loop.py` looks, asks here, does what it is told and reports the state. Whatever goes
wrong while looking or doing comes back here as the next sight's trouble, so every failure takes the
same road.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from penstock.driver.failures import TASK_FAILED, Trouble
from penstock.stream.status import QueryState


class Action(Enum):
    """One step; each is bounded in time."""

    WAIT = auto()
    DISCOVER = auto()
    """Ask the source for its partitions."""
    START_SESSION = auto()
    """Start Spark, and with it the executors."""
    CHECK_QUERY = auto()
    """Plan the query: what will be refused must not wait for its executors first."""
    REQUEST_EXECUTORS = auto()
    START_QUERY = auto()
    STOP_QUERY = auto()
    """Stop what is left of a query that has failed; the session stays."""
    LET_GO = auto()
    """Stop query and session, so that no executor is held; the driver stays up."""
    GIVE_UP = auto()
    """End the process: the kubelet makes a new one."""


@dataclass(frozen=True)
class Policy:
    """Times in seconds."""

    interval: float
    """The trigger's own: how often a commit is due."""
    backoff_base: float = 1.0
    backoff_cap: float = 60.0
    stable_after: float = 60.0
    """After so long without a failure the back-off begins anew."""
    look_again: float = 30.0
    """The pace at which a cause that may vanish is looked at again."""
    stuck_at_most: int = 3
    """Restarts for want of progress in a row, before the process is given up."""
    suspect_at_most: int = 10
    """Failures about a record in a row, without a commit between, before they are permanent."""

    @property
    def patience(self) -> float:
        """How long a query with all its cores may go without a commit."""
        return max(60.0, 10 * self.interval)

    @property
    def patience_for_cores(self) -> float:
        """How long a running query may go without a commit while it is short of cores."""
        return max(300.0, self.patience)

    def delay(self, attempts: int, jitter: float) -> float:
        """Exponential back-off with full jitter; `jitter` is in [0, 1)."""
        return jitter * min(self.backoff_cap, self.backoff_base * 2.0 ** min(attempts - 1, 30))


@dataclass(frozen=True)
class Sight:
    """What the loop sees at one moment. Times are monotonic seconds."""

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
    idle: bool = False
    busy: bool = False
    flowing: bool = False
    """Signs of life between commits: pulse.Pulse."""
    completed: bool = False
    """The query was to end, and has ended with its work done."""


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
    cores_at: float = 0.0
    """When the query last was short of cores, or was started."""
    healthy_since: float | None = None
    cores_had: int = 0
    """The most cores that the running query has had."""


EXECUTOR_LOST = "ExecutorLost"
NO_PROGRESS = "NoProgress"
CORES_LOST = "CoresLost"


def decide(state: State, sight: Sight, policy: Policy, jitter: float) -> tuple[State, Action]:
    """The next step."""
    if sight.trouble is not None:
        return _failed(state, _named(sight.trouble, sight), sight.now, policy, jitter)
    if sight.completed:
        done = replace(state, completed=True, halted=False, retry_at=None)
        return done, Action.WAIT if state.completed else Action.LET_GO
    if state.halted:
        return _halted(state, sight, policy)
    if state.retry_at is not None and sight.now < state.retry_at:
        return state, Action.WAIT
    state = replace(state, retry_at=None)
    if sight.query:
        return _running(state, sight, policy, jitter)
    return _towards_a_query(state, sight)


def _named(trouble: Trouble, sight: Sight) -> Trouble:
    """A lost executor has no exception of its own: Spark only says that a task has failed."""
    if trouble.reason == TASK_FAILED and sight.session and sight.cores < sight.cores_wanted:
        return replace(trouble, reason=EXECUTOR_LOST)
    return trouble


def _failed(
    state: State, trouble: Trouble, now: float, policy: Policy, jitter: float
) -> tuple[State, Action]:
    down = replace(
        state, trouble=trouble, owed=True, checked=False, committed=False, healthy_since=None
    )
    if trouble.suspect:
        down = replace(down, suspicions=down.suspicions + 1)
        if down.suspicions >= policy.suspect_at_most:
            trouble = replace(trouble, permanent=True)
            down = replace(down, trouble=trouble)
    if trouble.permanent:
        look_at = now + policy.look_again if trouble.curable else None
        return replace(down, halted=True, look_at=look_at, retry_at=None), Action.LET_GO
    attempts = state.attempts + 1
    stuck = state.stuck + 1 if trouble.reason == NO_PROGRESS else 0
    if stuck >= policy.stuck_at_most:
        return replace(down, attempts=attempts, stuck=stuck), Action.GIVE_UP
    retry_at = now + policy.delay(attempts, jitter)
    waiting = replace(down, attempts=attempts, stuck=stuck, retry_at=retry_at)
    return waiting, Action.LET_GO if trouble.reason == CORES_LOST else Action.STOP_QUERY


def _halted(state: State, sight: Sight, policy: Policy) -> tuple[State, Action]:
    if state.look_at is None:
        return state, Action.WAIT
    if sight.partitions is not None:
        return replace(state, halted=False, look_at=None), Action.WAIT
    if sight.now < state.look_at:
        return state, Action.WAIT
    return replace(state, look_at=sight.now + policy.look_again), Action.DISCOVER


def _towards_a_query(state: State, sight: Sight) -> tuple[State, Action]:
    if sight.partitions is None:
        return state, Action.DISCOVER
    if not sight.session:
        return replace(state, checked=False), Action.START_SESSION
    if sight.cores_requested < sight.cores_wanted:
        return state, Action.REQUEST_EXECUTORS
    if not state.checked:
        return replace(state, checked=True), Action.CHECK_QUERY
    if sight.cores < sight.cores_wanted:
        return state, Action.WAIT
    started = replace(
        state,
        owed=False,
        restarts=state.restarts + int(state.owed),
        committed=False,
        epoch=sight.epoch,
        commit_at=sight.now,
        cores_at=sight.now,
        healthy_since=None,
        cores_had=sight.cores,
    )
    return started, Action.START_QUERY


def _running(state: State, sight: Sight, policy: Policy, jitter: float) -> tuple[State, Action]:
    if sight.epoch is not None and (state.epoch is None or sight.epoch > state.epoch):
        state = replace(
            state,
            epoch=sight.epoch,
            committed=True,
            commit_at=sight.now,
            stuck=0,
            suspicions=0,
            healthy_since=sight.now if state.healthy_since is None else state.healthy_since,
        )
    if sight.flowing and not state.committed:
        state = replace(state, committed=True, stuck=0, healthy_since=sight.now)
    if sight.idle or sight.busy:
        state = replace(state, commit_at=sight.now)
    if state.healthy_since is not None and sight.now - state.healthy_since >= policy.stable_after:
        state = replace(state, attempts=0)
    if sight.cores < state.cores_had:
        return _failed(state, _executor_lost(sight, state), sight.now, policy, jitter)
    state = replace(state, cores_had=sight.cores)
    if sight.cores_requested < sight.cores_wanted:
        return state, Action.REQUEST_EXECUTORS
    if sight.cores < sight.cores_wanted:
        if sight.now - state.commit_at > policy.patience_for_cores:
            return _failed(state, _cores_lost(sight, policy), sight.now, policy, jitter)
        return replace(state, cores_at=sight.now), Action.WAIT
    if sight.now - max(state.commit_at, state.cores_at) > policy.patience:
        return _failed(state, _no_progress(policy), sight.now, policy, jitter)
    return state, Action.WAIT


def _executor_lost(sight: Sight, state: State) -> Trouble:
    """An executor whose pod was deleted takes its tasks with it, and Spark does not fail the query.

    "Exited for a reason unrelated to the task" does not count against spark.task.maxFailures: the
    other partitions flow on, no epoch commits, and only when a replacement tries the lost task is
    the query failed by ContinuousTaskRetryException. 40 s of traffic then came twice (measured on
    Kubernetes, Spark 4.2); stopping at once keeps it to an epoch.
    """
    return Trouble(
        EXECUTOR_LOST,
        f"an executor is gone ({sight.cores} of {state.cores_had} cores are left); the query is "
        "started again from its checkpoint once it is replaced",
    )


def _no_progress(policy: Policy) -> Trouble:
    return Trouble(
        NO_PROGRESS,
        f"no epoch was committed within {policy.patience:.0f} s though all cores are there; "
        "the query is started again from its checkpoint",
    )


def _cores_lost(sight: Sight, policy: Policy) -> Trouble:
    return Trouble(
        CORES_LOST,
        f"no epoch was committed within {policy.patience_for_cores:.0f} s with {sight.cores} of "
        f"{sight.cores_wanted} cores; Spark is started again with new executors",
    )


def describe(state: State, sight: Sight) -> tuple[QueryState, str]:
    """The state in a word and a sentence, for the report."""
    if state.halted and state.trouble is not None:
        return QueryState.FAILED, state.trouble.message
    if state.completed:
        return QueryState.COMPLETED, ""
    cores = f"{sight.cores} of {sight.cores_wanted} cores"
    if sight.session and sight.cores < sight.cores_wanted and state.retry_at is None:
        return QueryState.WAITING_FOR_CORES, cores
    if sight.query and state.committed:
        return QueryState.RUNNING, ""
    if state.trouble is not None and (state.owed or state.restarts):
        return QueryState.RESTARTING, f"after {state.trouble.reason}"
    return QueryState.STARTING, ""


def is_ready(state: State, sight: Sight, policy: Policy) -> bool:
    """Whether the query runs and keeps committing, or has done all it had to do."""
    return state.completed or (
        sight.query
        and state.committed
        and not state.halted
        and sight.now - state.commit_at <= policy.patience
    )
