"""What a running query shows of itself: commits, and activity between them. Pure.

Each function returns the run, and the history of all runs, with what one observation adds to them.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.api.modes import Mode
from penstock.driver.supervision.history import History
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.phases import Running
from penstock.driver.supervision.restart_policy import RestartPolicy

# The weight of a new value in the smoothed commit interval.
_SMOOTHING_WEIGHT = 0.3
# How much of the slowest progress is left after a commit: an exception is soon forgotten.
_FADING = 0.9


def with_commits(
    run: Running, history: History, observation: Observation, policy: RestartPolicy
) -> tuple[Running, History]:
    """The commits since the last observation."""
    if observation.epoch is None or (run.epoch is not None and observation.epoch <= run.epoch):
        return run, history
    interval = run.commit_interval
    if policy.mode is Mode.CONTINUOUS and run.confirmed and run.epoch is not None:
        latest = (observation.now - run.progress_at) / (observation.epoch - run.epoch)
        interval = latest if interval == 0 else interval + _SMOOTHING_WEIGHT * (latest - interval)
    history = history.without_committed(observation.offsets)
    records = _committed_records(run, observation, policy)
    if records:
        history = replace(history, rechecks=0, poison_failures=0)
    # If none came for so long, its first commit may have held all the records that there are.
    counts = records or _is_stable(run, observation, policy)
    if counts:
        # Before the state is divided, the edit that asks for it has not shown that it can run.
        proved = history.proved or not observation.runs_one_batch
        history = replace(history, proved=proved, stalls=0, uncommitted_seconds=0.0)
    history = replace(history, slowest_progress=_FADING * history.slowest_progress)
    fruitful = run.fruitful or counts
    # Between two batches nothing is uncommitted.
    since = observation.now if fruitful else run.uncommitted_since
    since = since if policy.mode.has_long_running_tasks else None
    run, history = _progressed(run, history, observation, policy)
    healthy_since = observation.now if run.healthy_since is None else run.healthy_since
    return replace(
        run,
        after=None,
        confirmed=True,
        committed=True,
        committed_records=run.committed_records or records,
        epoch=observation.epoch,
        offsets=observation.offsets,
        committed_at=observation.now,
        fruitful=fruitful,
        uncommitted_since=since,
        commit_interval=interval,
        healthy_since=healthy_since,
    ), history


def _committed_records(run: Running, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether a new commit holds records. A micro-batch of a Kafka source is never empty.

    The other engines also commit epochs without records: the continuous engine the first of each
    run, whose trigger fires before a reader has polled, and others while a client does not know yet
    that it may not read the topic (measured, Spark 4.2). Such a commit alone proves nothing.
    """
    if not policy.mode.has_long_running_tasks or observation.offsets is None:
        return True
    return run.offsets is not None and run.offsets != observation.offsets


def with_activity(
    run: Running, history: History, observation: Observation, policy: RestartPolicy
) -> tuple[Running, History]:
    """Evidence between commits that the query works."""
    activity, now = observation.activity, observation.now
    if activity.confirmed_running and not run.confirmed:
        run = replace(run, after=None, confirmed=True, healthy_since=now)
    if policy.mode is not Mode.CONTINUOUS:
        run, history = _with_work(run, history, observation, policy)
    if activity.active_tasks is None or activity.active_tasks >= run.slots:
        run = replace(run, tasks_complete_since=now)
    if _is_stable(run, observation, policy):
        history = replace(history, attempts=0, query_failures=0)
    return run, history


def _is_stable(run: Running, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether the running query has been healthy for `stable_after`."""
    since = run.healthy_since
    return since is not None and observation.now - since >= policy.stable_after


def _with_work(
    run: Running, history: History, observation: Observation, policy: RestartPolicy
) -> tuple[Running, History]:
    """Progress of a batch engine between commits: tasks, rows, offsets, or nothing to do.

    Spark forgets that a query was idle only when the next batch is planned: also one that hangs in
    its source looks idle. One that is idle looks again and again, and says so.
    """
    planned, activity = observation.planned_epoch, observation.activity
    if activity.work and run.uncommitted_since is None:
        run = replace(run, uncommitted_since=observation.now)
    if activity.work != run.work or planned != run.planned_epoch:
        run = replace(run, work=activity.work, planned_epoch=planned)
        return _progressed(run, history, observation, policy)
    if activity.idle and activity.idle_trigger != run.idle_trigger:
        run = replace(run, idle_trigger=activity.idle_trigger, progress_at=observation.now)
    return run, history


def _progressed(
    run: Running, history: History, observation: Observation, policy: RestartPolicy
) -> tuple[Running, History]:
    """Notes a sign of progress, and how much longer than usual it took to come."""
    slow = observation.now - run.progress_at - policy.progress_interval
    slowest = max(history.slowest_progress, slow)
    return replace(run, progress_at=observation.now), replace(history, slowest_progress=slowest)
