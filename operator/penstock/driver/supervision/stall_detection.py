"""Detects a query that is stuck although Spark throws no exception. Pure functions.

The sign of progress is a commit in continuous mode. In the batch modes it is also a completed task,
rows that tasks have read or written, and new offsets; that a job is active is no sign. A query
without progress is first late: not ready, and left running. Then it is stalled, and restarted.
Patience doubles with each restart that leads to no commit, and follows the slowest progress that
was seen, so that a slow query ends up with the time that it needs.
"""

from __future__ import annotations

from penstock.api.modes import Mode
from penstock.driver.failures import Failure
from penstock.driver.supervision.history import History
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.phases import Running
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.unread_partitions import PARTITIONS_NOT_READ

EXECUTOR_LOST = "ExecutorLost"
NO_PROGRESS = "NoProgress"
COMMITS_STUCK = "CommitsStuck"
TASKS_MISSING = "TasksMissing"
CORES_LOST = "CoresLost"
CLOCK_SET_BACK = "ClockSetBack"
# These count towards the exit of the process: a new JVM may help where a new session does not.
STALLS = frozenset({NO_PROGRESS, COMMITS_STUCK, TASKS_MISSING})
# A new query in the same executors may not repair these.
NEED_NEW_SESSION = frozenset({CORES_LOST, CLOCK_SET_BACK, PARTITIONS_NOT_READ})
# All failures that are found by observation rather than by an exception.
DETECTED = STALLS | NEED_NEW_SESSION | {EXECUTOR_LOST}

# One epoch ahead is normal: `commits_stuck`.
_MAX_UNCOMMITTED_EPOCHS = 1
# Epochs that take this many times the interval are reported.
_SLOW_FACTOR = 3.0
# The source is asked every ten seconds and may take ten to answer. A stall waits this long for an
# answer, because no restart helps while the source does not answer.
_ANSWER_SECONDS = 20.0
# What a clock is set back delays what is timed by it. This much is no reason for a restart.
_MAX_SET_BACK_SECONDS = 5.0
# A query that does not resume although its source has been away for this long is restarted.
_OUTAGE_SECONDS = 300.0


def late_after(history: History, policy: RestartPolicy) -> float:
    """Seconds without progress after which the query is not ready."""
    return policy.late_after_slowest(history.slowest_progress)


def stall_after(run: Running, history: History, policy: RestartPolicy) -> float:
    """Seconds without progress after which the query is restarted.

    It starts with its first records: an empty epoch loads none of the transform's classes. The
    first lower() of a JVM alone takes 2 s of processor time (measured, Spark 4.2).
    """
    base = policy.stall_after if run.committed_records else policy.start_after
    slowest = policy.stall_after_slowest(history.slowest_progress)
    return max(base, slowest) * policy.patience_factor(history.stalls)


def needed_cores(slots: int, observation: Observation, policy: RestartPolicy) -> int:
    """The cores without which a query of so many tasks cannot progress.

    A task of the continuous engine and of real-time mode keeps its core. A micro-batch only takes
    longer with fewer.
    """
    needed = slots if policy.mode.has_long_running_tasks else 1
    return min(observation.desired_cores, needed)


def executor_lost(run: Running, observation: Observation, policy: RestartPolicy) -> Failure | None:
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
        or observation.registered_cores >= run.cores
        or observation.registered_cores >= run.slots
    ):
        return None
    return Failure(
        EXECUTOR_LOST,
        f"An executor was lost ({observation.registered_cores} of {run.cores} cores are left). "
        "The query restarts from its checkpoint when the executor is replaced.",
    )


def cores_lost(run: Running, observation: Observation, policy: RestartPolicy) -> Failure | None:
    """Cores have been missing for so long that a new session may do better."""
    if observation.now - run.progress_at <= policy.cores_timeout:
        return None
    return Failure(
        CORES_LOST,
        f"No progress for {policy.cores_timeout:.0f} s with "
        f"{observation.registered_cores} of {observation.desired_cores} cores. Spark restarts with "
        "new executors.",
    )


def clock_set_back(run: Running, observation: Observation) -> Failure | None:
    """The wall clock has gone back, and Spark waits until it shows the former time again.

    Triggers of all engines are timed by it (SystemClock.waitTillTime), and so is the time until a
    client of Kafka asks for metadata again. A query whose trigger waits looks idle.
    """
    seconds = run.wall_clock - observation.wall_clock
    if seconds <= _MAX_SET_BACK_SECONDS:
        return None
    return Failure(
        CLOCK_SET_BACK,
        f"The node's clock went back {seconds:.0f} s. Spark's timers would stall that long. Spark "
        "restarts.",
    )


def late(
    run: Running, history: History, observation: Observation, policy: RestartPolicy
) -> Failure | None:
    """Why a query that has committed is not ready: it makes no progress, and may yet do so."""
    patience = late_after(history, policy)
    if not run.confirmed or observation.now - run.progress_at <= patience:
        return None
    return Failure(
        NO_PROGRESS,
        f"No progress for {patience:.0f} s{_place(observation)}. If this lasts for "
        f"{stall_after(run, history, policy):.0f} s in all, the query restarts from its "
        "checkpoint.",
    )


def stall(
    run: Running, history: History, observation: Observation, policy: RestartPolicy
) -> Failure | None:
    """The reason why a query with the cores that it needs makes no progress."""
    now, patience = observation.now, stall_after(run, history, policy)
    if observation.source_outage is not None:
        away = now - run.progress_at > max(_OUTAGE_SECONDS, patience)
        return observation.source_outage if away else None
    since = max(run.progress_at, run.cores_complete_since, run.source_answers_since)
    waited, answered_at = now - since, observation.source_answered_at
    if waited <= patience or (
        waited <= patience + _ANSWER_SECONDS
        and answered_at is not None
        and answered_at < since + late_after(history, policy)
    ):
        return None
    return (
        _tasks_missing(run, observation, patience)
        or _tasks_wait(observation, patience)
        or Failure(
            NO_PROGRESS,
            f"No progress for {patience:.0f} s{_place(observation)}, with all cores registered. "
            "The query restarts from its checkpoint.",
        )
    )


def _place(observation: Observation) -> str:
    at = observation.activity.stands_at
    return "" if at is None else f" in sink.python ({at})"


def commits_stuck(observation: Observation, policy: RestartPolicy) -> Failure | None:
    """The continuous engine's coordinator swallows a failed commit and keeps planning epochs.

    It never commits again ("ERROR Inbox: Ignoring error"; a leftover checksum file causes it, or a
    folder that cannot be written: measured, Spark 4.2), so the query is stopped at once.

    Offsets of epoch N + 1 without a commit of N prove it, however slow a sink or a volume is (Spark
    4.2). One thread of a task reports the offset of N (ContinuousQueuedDataReader.next), flushes
    and reports its commit (ContinuousWriteRDD.compute), and only then reports the offset of N + 1,
    to an endpoint that handles one message at a time, in the order of a sender. Penstock's reader,
    which ends its epochs itself, keeps this order (KafkaPartitionReader.endEpoch). So when
    EpochCoordinator.receive has the last offset of N + 1 and writes offsets/N+1 (addOffset), it has
    had all offsets and commits of N, and with the last of these it has called commitEpoch(N), which
    returns once commits/N is there; or it waits for ever for an earlier epoch whose commit failed.
    The planned epoch is observed before the committed one, which only grows in between: the
    difference is never overstated.
    """
    if policy.mode is not Mode.CONTINUOUS or observation.planned_epoch is None:
        return None
    ahead = observation.planned_epoch - (-1 if observation.epoch is None else observation.epoch)
    if ahead <= _MAX_UNCOMMITTED_EPOCHS:
        return None
    return Failure(
        COMMITS_STUCK,
        f"Offsets of {ahead} epochs were written after the last commit: a commit has failed, and "
        "Spark does not repeat it. The query restarts from its checkpoint.",
    )


def failed_write(path: str) -> Failure:
    """The failure of a write of this file, after which others of the checkpoint succeed."""
    return Failure(
        COMMITS_STUCK,
        f"A file of the checkpoint could not be written ({path}), and Spark does not try again. "
        "The query restarts from its checkpoint.",
    )


def is_probe_due(run: Running, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether to find out if the checkpoint is the reason why a commit is overdue.

    A batch engine fails with the write. While the source is away, nothing is committed.
    """
    due = run.committed_at + policy.interval
    return (
        policy.mode is Mode.CONTINUOUS
        and observation.source_outage is None
        and policy.is_probe_due(observation.now - due, run.probed_at - due)
    )


def _tasks_missing(run: Running, observation: Observation, patience: float) -> Failure | None:
    """Spark reports no error for a partition without a task, and no epoch ends any more."""
    since = max(run.tasks_complete_since, run.cores_complete_since)
    active = observation.activity.active_tasks
    if active is None or observation.now - since <= patience:
        return None
    return Failure(
        TASKS_MISSING,
        f"{active} tasks run for {run.slots} partitions, with all cores registered. The query "
        "restarts from its checkpoint.",
    )


def _tasks_wait(observation: Observation, patience: float) -> Failure | None:
    """A source that states its partitions itself has more of them than it says."""
    waiting, active = observation.activity.waiting_tasks, observation.activity.active_tasks
    if not waiting or active is None:
        return None
    return Failure(
        NO_PROGRESS,
        f"No progress for {patience:.0f} s: {waiting} of {waiting + active} tasks wait for a "
        "core, and each partition needs one all the time. The query restarts from its checkpoint "
        "and will stall once more. Set spec.source.custom.numPartitions to the partitions that the "
        "source has, or use source.kafka for Kafka.",
    )


def is_slow(run: Running, policy: RestartPolicy) -> bool:
    """Whether epochs take much longer than their interval. A restart does not help with that."""
    slow = run.commit_interval > _SLOW_FACTOR * policy.interval
    return policy.mode is Mode.CONTINUOUS and slow
