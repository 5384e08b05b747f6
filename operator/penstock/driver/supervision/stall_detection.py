"""Detects a query that is stuck although Spark throws no exception. Pure functions.

The supervisor restarts the query for each failure found here. After `max_stalls` stalls in a row
without a commit between them it exits the process.
"""

from __future__ import annotations

from penstock.driver.failures import Failure
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.state import Observation, State

EXECUTOR_LOST = "ExecutorLost"
NO_PROGRESS = "NoProgress"
COMMITS_STUCK = "CommitsStuck"
TASKS_MISSING = "TasksMissing"
CORES_LOST = "CoresLost"
# These count towards the exit of the process: a new JVM may help where a new session does not.
STALLS = frozenset({NO_PROGRESS, COMMITS_STUCK, TASKS_MISSING})
# All failures that are found by observation rather than by an exception.
DETECTED = STALLS | {EXECUTOR_LOST, CORES_LOST}

# One epoch ahead is normal: its offsets are written when every partition has reached the end of
# the epoch, its commit when every writer has flushed it.
_MAX_UNCOMMITTED_EPOCHS = 3
# Epochs that take this many times the interval are reported.
_SLOW_FACTOR = 3.0


def executor_lost(state: State, observation: Observation) -> Failure | None:
    """A deleted executor pod takes its tasks with it, and Spark does not fail the query.

    "Exited for a reason unrelated to the task" does not count against spark.task.maxFailures: the
    other partitions continue, no epoch commits, and the query fails with
    ContinuousTaskRetryException only when a replacement retries the lost task. 40 s of traffic
    were then written twice (measured on Kubernetes, Spark 4.2). An immediate stop limits the
    duplicates to one epoch.
    """
    if observation.registered_cores >= state.previous_cores:
        return None
    return Failure(
        EXECUTOR_LOST,
        f"An executor was lost ({observation.registered_cores} of {state.previous_cores} cores are "
        "left). The query restarts from its checkpoint when the executor is replaced.",
    )


def cores_lost(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """Cores have been missing for so long that a new session may do better."""
    if observation.now - state.last_progress_at <= policy.cores_timeout:
        return None
    return Failure(
        CORES_LOST,
        f"No epoch was committed within {policy.cores_timeout:.0f} s with "
        f"{observation.registered_cores} of {observation.desired_cores} cores. Spark restarts with "
        "new executors.",
    )


def stall(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """The reason why a query with all its cores does not commit."""
    return (
        _commits_stuck(state, observation, policy)
        or _tasks_missing(state, observation, policy)
        or _no_progress(state, observation, policy)
    )


def _commits_stuck(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """The continuous engine's coordinator swallows a failed commit and keeps planning epochs.

    (A leftover checksum file causes it: measured, Spark 4.2. "ERROR Inbox: Ignoring error".)
    """
    if not policy.continuous or observation.planned_epoch is None:
        return None
    ahead = observation.planned_epoch - (-1 if observation.epoch is None else observation.epoch)
    if (
        ahead < _MAX_UNCOMMITTED_EPOCHS
        or observation.now - state.last_progress_at <= policy.stuck_commits_timeout
    ):
        return None
    return Failure(
        COMMITS_STUCK,
        f"Offsets of {ahead} epochs were written, and none was committed for "
        f"{policy.stuck_commits_timeout:.0f} s. The query restarts from its checkpoint.",
    )


def _tasks_missing(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """Spark reports no error for a partition without a task, and no epoch ends any more."""
    since = max(state.tasks_complete_at, state.cores_complete_at)
    if observation.active_tasks is None or observation.now - since <= policy.missing_tasks_timeout:
        return None
    return Failure(
        TASKS_MISSING,
        f"{observation.active_tasks} tasks run for {observation.partitions} partitions although "
        "all cores are there. The query restarts from its checkpoint.",
    )


def _no_progress(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    since = max(state.last_progress_at, state.cores_complete_at)
    if observation.now - since <= policy.commit_timeout:
        return None
    return Failure(
        NO_PROGRESS,
        f"No epoch was committed within {policy.commit_timeout:.0f} s although all cores are "
        "there. The query restarts from its checkpoint.",
    )


def is_slow(state: State, policy: RestartPolicy) -> bool:
    """Whether epochs take much longer than their interval. A restart does not help with that."""
    return policy.continuous and state.commit_interval > _SLOW_FACTOR * policy.interval
