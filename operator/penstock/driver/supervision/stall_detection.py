"""Detects a query that is stuck although Spark throws no exception. Pure functions.

The sign of progress is a commit in continuous mode. In the batch modes it is also a completed task,
rows that tasks have read or written, and new offsets; that a job is active is no sign. The
supervisor restarts the query for each failure found here. Patience doubles with each restart that
leads to no commit, and follows the slowest progress that was seen, so that a slow query ends up
with the time that it needs.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.api.modes import Mode
from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Position
from penstock.driver.supervision.observation import Observation, State
from penstock.driver.supervision.restart_policy import RestartPolicy

EXECUTOR_LOST = "ExecutorLost"
NO_PROGRESS = "NoProgress"
COMMITS_STUCK = "CommitsStuck"
TASKS_MISSING = "TasksMissing"
CORES_LOST = "CoresLost"
CLOCK_SET_BACK = "ClockSetBack"
PARTITIONS_NOT_READ = "PartitionsNotRead"
# These count towards the exit of the process: a new JVM may help where a new session does not.
STALLS = frozenset({NO_PROGRESS, COMMITS_STUCK, TASKS_MISSING})
# All failures that are found by observation rather than by an exception.
DETECTED = STALLS | {EXECUTOR_LOST, CORES_LOST, CLOCK_SET_BACK, PARTITIONS_NOT_READ}

# One epoch ahead is normal: its offsets are written when every partition has reached the end of
# the epoch, its commit when every writer has flushed it.
_MAX_UNCOMMITTED_EPOCHS = 3
# Epochs that take this many times the interval are reported.
_SLOW_FACTOR = 3.0
# A query is late, and stalled, after this many times its slowest progress.
_LATE_FACTOR = 2.0
_STALL_FACTOR = 3.0
# Patience grows no further: a cause that has gone must be noticed some day.
_MAX_DOUBLINGS = 5
# The source is asked every ten seconds and may take ten to answer. A stall waits this long for an
# answer, because no restart helps while the source is away.
_ANSWER_SECONDS = 20.0
# What a clock is set back delays what is timed by it. This much is no reason for a restart.
_MAX_SET_BACK_SECONDS = 5.0
# A query that does not resume although its source has been away for this long is restarted.
_OUTAGE_SECONDS = 300.0


def late_after(state: State, policy: RestartPolicy) -> float:
    """Seconds without progress after which the query is not ready."""
    return max(policy.late_after, policy.silence + _LATE_FACTOR * state.slowest)


def stall_after(state: State, policy: RestartPolicy) -> float:
    """Seconds without progress after which the query is restarted."""
    base = policy.stall_after if state.committed else policy.start_after
    doublings = min(state.stalls, _MAX_DOUBLINGS)
    slowest = policy.silence + _STALL_FACTOR * state.slowest
    return float(max(base, slowest) * 2**doublings)


def is_patience_for(state: State, policy: RestartPolicy) -> bool:
    """Whether the slowest progress gives the query more patience than its interval does."""
    return policy.silence + _STALL_FACTOR * state.slowest > policy.stall_after


def needed_cores(state: State, observation: Observation, policy: RestartPolicy) -> int:
    """The cores without which the running query cannot progress.

    A task of the continuous engine and of real-time mode keeps its core, so each partition needs
    one. A micro-batch only takes longer with fewer.
    """
    if policy.mode.has_long_running_tasks:
        return min(observation.desired_cores, state.query_partitions)
    return min(observation.desired_cores, 1)


def executor_lost(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """A deleted executor pod takes its tasks with it, and Spark does not fail the query.

    "Exited for a reason unrelated to the task" does not count against spark.task.maxFailures: the
    other partitions continue, no epoch commits, and the query fails with
    ContinuousTaskRetryException only when a replacement retries the lost task. 40 s of traffic
    were then written twice (measured on Kubernetes, Spark 4.2). An immediate stop limits the
    duplicates to one epoch. While there are cores to spare, Spark retries at once and fails the
    query itself if the executor had a task. The batch engines retry lost tasks without harm.
    """
    if (
        policy.mode is not Mode.CONTINUOUS
        or observation.registered_cores >= state.previous_cores
        or observation.registered_cores >= state.query_partitions
    ):
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
        f"No progress within {policy.cores_timeout:.0f} s with "
        f"{observation.registered_cores} of {observation.desired_cores} cores. Spark restarts with "
        "new executors.",
    )


def clock_set_back(state: State, observation: Observation) -> Failure | None:
    """The wall clock has gone back, and Spark waits until it shows the former time again.

    Triggers of all engines are timed by it (SystemClock.waitTillTime), and so is the time until a
    client of Kafka asks for metadata again. A query whose trigger waits looks idle.
    """
    seconds = state.wall_clock - observation.wall_clock
    if seconds <= _MAX_SET_BACK_SECONDS:
        return None
    return Failure(
        CLOCK_SET_BACK,
        f"The node's clock was set back by {seconds:.0f} s, and Spark would wait for as long. It "
        "restarts with new executors.",
    )


def late(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """Why a query that has committed is not ready: it makes no progress, and may yet do so."""
    since = observation.now - state.last_progress_at
    if not state.committed or since <= late_after(state, policy):
        return None
    return Failure(
        NO_PROGRESS,
        f"No progress for {late_after(state, policy):.0f} s. If this lasts for "
        f"{stall_after(state, policy):.0f} s in all, the query restarts from its checkpoint.",
    )


def stall(state: State, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """The reason why a query with the cores that it needs makes no progress."""
    if observation.source_outage is not None:
        away = observation.now - state.last_progress_at > max(
            _OUTAGE_SECONDS, stall_after(state, policy)
        )
        return observation.source_outage if away else None
    since = max(state.last_progress_at, state.cores_complete_at, state.source_answers_since)
    waited, patience = observation.now - since, stall_after(state, policy)
    if waited <= patience or (
        waited <= patience + _ANSWER_SECONDS
        and observation.source_answered_at is not None
        and observation.source_answered_at < since + late_after(state, policy)
    ):
        return None
    return (
        _tasks_missing(state, observation, patience)
        or _commits_stuck(observation, policy, patience)
        or Failure(
            NO_PROGRESS,
            f"No progress within {patience:.0f} s although all cores are there. The query restarts "
            "from its checkpoint.",
        )
    )


def _commits_stuck(
    observation: Observation, policy: RestartPolicy, patience: float
) -> Failure | None:
    """The continuous engine's coordinator swallows a failed commit and keeps planning epochs.

    (A leftover checksum file causes it: measured, Spark 4.2. "ERROR Inbox: Ignoring error".)
    """
    if policy.mode is not Mode.CONTINUOUS or observation.planned_epoch is None:
        return None
    ahead = observation.planned_epoch - (-1 if observation.epoch is None else observation.epoch)
    if ahead < _MAX_UNCOMMITTED_EPOCHS:
        return None
    return Failure(
        COMMITS_STUCK,
        f"Offsets of {ahead} epochs were written, and none was committed for "
        f"{patience:.0f} s. The query restarts from its checkpoint.",
    )


def _tasks_missing(state: State, observation: Observation, patience: float) -> Failure | None:
    """Spark reports no error for a partition without a task, and no epoch ends any more."""
    since = max(state.tasks_complete_at, state.cores_complete_at)
    if observation.activity.active_tasks is None or observation.now - since <= patience:
        return None
    return Failure(
        TASKS_MISSING,
        f"{observation.activity.active_tasks} tasks run for {state.query_partitions} partitions "
        "although all cores are there. The query restarts from its checkpoint.",
    )


def unread(state: State, policy: RestartPolicy) -> Failure | None:
    """Why a query whose epochs commit is not ready: it leaves out a partition."""
    found = _left_out(state, policy.unread_after)
    if not found:
        return None
    return Failure(
        PARTITIONS_NOT_READ,
        f"For {policy.unread_after:.0f} s nothing has been read of {_names(found)}, although there "
        "are records: an executor may not reach a broker. If this lasts for "
        f"{_not_read_after(state, policy):.0f} s in all, Spark restarts with new executors.",
    )


def not_read(state: State, policy: RestartPolicy) -> tuple[State, Failure | None]:
    """The reason to restart Spark for partitions that it leaves out, and the state that counts it.

    A new executor may be on another node. Patience doubles as long as they are not read.
    """
    patience = _not_read_after(state, policy)
    found = _left_out(state, patience)
    if not found:
        return state, None
    counted = replace(state, not_read=found, not_read_failures=state.not_read_failures + 1)
    return counted, Failure(
        PARTITIONS_NOT_READ,
        f"For {patience:.0f} s nothing was read of {_names(found)}, although there are records: an "
        "executor may not reach a broker. Spark restarts with new executors.",
    )


def _not_read_after(state: State, policy: RestartPolicy) -> float:
    return float(policy.not_read_after * 2 ** min(state.not_read_failures, _MAX_DOUBLINGS))


def _left_out(state: State, seconds: float) -> frozenset[Position]:
    """The positions that a commit has left out although their records were there for so long.

    Without a new commit nothing is left out: the whole query may be suspended, or stuck.
    """
    return frozenset(
        each for each, since in state.unread_since.items() if state.committed_at - since > seconds
    )


def _names(positions: frozenset[Position]) -> str:
    (topic, number, offset), *others = sorted(positions)
    more = f", and of {len(others)} others" if others else ""
    return f"partition {number} of {topic} from offset {offset} on{more}"


def is_slow(state: State, policy: RestartPolicy) -> bool:
    """Whether epochs take much longer than their interval. A restart does not help with that."""
    return policy.mode is Mode.CONTINUOUS and state.commit_interval > _SLOW_FACTOR * policy.interval
