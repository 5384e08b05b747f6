"""Tells a query that is stuck from one that is idle: what Spark never says by an exception. Pure.

The supervisor starts the query again for what is found here, and after three times in a row
without a commit between gives up the process.
"""

from __future__ import annotations

from penstock.driver.failures import Failure
from penstock.driver.supervision.restart_policy import Policy
from penstock.driver.supervision.state import Observation, State

EXECUTOR_LOST = "ExecutorLost"
NO_PROGRESS = "NoProgress"
COMMITS_STUCK = "CommitsStuck"
TASKS_MISSING = "TasksMissing"
CORES_LOST = "CoresLost"
# What counts towards giving up the process: a new session will hardly help, a new JVM may.
STUCK = frozenset({NO_PROGRESS, COMMITS_STUCK, TASKS_MISSING})
# All that is found by looking, and by no exception.
FOUND = STUCK | {EXECUTOR_LOST, CORES_LOST}

# Ordinary is one: offsets are written when every partition has reached the end of the epoch,
# the commit follows when every writer has flushed it.
_PLANNED_AHEAD = 3
# Epochs that take so many times the interval are worth a word.
_BEHIND = 3.0


def executor_lost(state: State, observation: Observation) -> Failure | None:
    """An executor whose pod was deleted takes its tasks with it, and Spark does not fail the query.

    "Exited for a reason unrelated to the task" does not count against spark.task.maxFailures: the
    other partitions flow on, no epoch commits, and only when a replacement tries the lost task is
    the query failed by ContinuousTaskRetryException. 40 s of traffic then came twice (measured on
    Kubernetes, Spark 4.2); stopping at once keeps it to an epoch.
    """
    if observation.cores >= state.cores_had:
        return None
    return Failure(
        EXECUTOR_LOST,
        f"an executor is gone ({observation.cores} of {state.cores_had} cores are left); "
        "the query is "
        "started again from its checkpoint once it is replaced",
    )


def cores_lost(state: State, observation: Observation, policy: Policy) -> Failure | None:
    """Short of cores for so long that a new session may do better."""
    if observation.now - state.commit_at <= policy.patience_for_cores:
        return None
    return Failure(
        CORES_LOST,
        f"no epoch was committed within {policy.patience_for_cores:.0f} s with "
        f"{observation.cores} of "
        f"{observation.cores_wanted} cores; Spark is started again with new executors",
    )


def stuck(state: State, observation: Observation, policy: Policy) -> Failure | None:
    """What keeps a query with all its cores from committing."""
    return (
        _commits_stuck(state, observation, policy)
        or _tasks_missing(state, observation, policy)
        or _no_progress(state, observation, policy)
    )


def _commits_stuck(state: State, observation: Observation, policy: Policy) -> Failure | None:
    """The continuous engine's coordinator swallows a failed commit, and goes on planning epochs.

    (A leftover checksum does it: measured, Spark 4.2. "ERROR Inbox: Ignoring error".)
    """
    if not policy.continuous or observation.planned is None:
        return None
    ahead = observation.planned - (-1 if observation.epoch is None else observation.epoch)
    if ahead < _PLANNED_AHEAD or observation.now - state.commit_at <= policy.patience_with_commits:
        return None
    return Failure(
        COMMITS_STUCK,
        f"offsets of {ahead} epochs were written and none of them was committed for "
        f"{policy.patience_with_commits:.0f} s; the query is started again from its checkpoint",
    )


def _tasks_missing(state: State, observation: Observation, policy: Policy) -> Failure | None:
    """A partition without a task starves without a word, and no epoch ends any more."""
    if observation.tasks is None or observation.now - max(state.tasks_at, state.cores_at) <= (
        policy.patience_for_tasks
    ):
        return None
    return Failure(
        TASKS_MISSING,
        f"{observation.tasks} tasks run for {observation.partitions} partitions though all cores "
        "are there; the query is started again from its checkpoint",
    )


def _no_progress(state: State, observation: Observation, policy: Policy) -> Failure | None:
    if observation.now - max(state.commit_at, state.cores_at) <= policy.patience:
        return None
    return Failure(
        NO_PROGRESS,
        f"no epoch was committed within {policy.patience:.0f} s though all cores are there; "
        "the query is started again from its checkpoint",
    )


def is_behind(state: State, policy: Policy) -> bool:
    """Whether epochs take much longer than they should: slow is not stuck, and no restart helps."""
    return policy.continuous and state.pace > _BEHIND * policy.interval
