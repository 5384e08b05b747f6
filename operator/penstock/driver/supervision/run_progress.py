"""What a running query has shown so far: commits, work, and records that it leaves out. Pure.

Each function returns the state with what one observation adds to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.api.modes import Mode
from penstock.driver.kafka.offsets import Offsets, Position
from penstock.driver.supervision.observation import Observation, State
from penstock.driver.supervision.restart_policy import RestartPolicy

# The weight of a new value in the smoothed commit interval.
_SMOOTHING_WEIGHT = 0.3
# How much of the slowest progress is left after a commit: an exception is soon forgotten.
_FADING = 0.9


def with_commits(state: State, observation: Observation, policy: RestartPolicy) -> State:
    """The commits since the last observation."""
    if observation.epoch is None or (state.epoch is not None and observation.epoch <= state.epoch):
        return state
    interval = state.commit_interval
    if policy.mode is Mode.CONTINUOUS and state.committed and state.epoch is not None:
        latest = (observation.now - state.last_progress_at) / (observation.epoch - state.epoch)
        interval = latest if interval == 0 else interval + _SMOOTHING_WEIGHT * (latest - interval)
    if _committed_records(state, observation, policy):
        state = replace(state, proved=True, rechecks=0, poison_failures=0)
    elif _is_stable(state, observation, policy):
        # Its first commit may have held all the records that there are.
        state = replace(state, proved=True)
    state = _progressed(replace(state, slowest=_FADING * state.slowest), observation, policy)
    return replace(
        state,
        epoch=observation.epoch,
        offsets=observation.offsets,
        committed=True,
        recovering=False,
        committed_at=observation.now,
        commit_interval=interval,
        stalls=0,
        healthy_since=observation.now if state.healthy_since is None else state.healthy_since,
    )


def _committed_records(state: State, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether a new commit holds records. A micro-batch of a Kafka source is never empty.

    The other engines also commit epochs without records, for example while a client does not know
    yet that it may not read the topic (measured, Spark 4.2). Such a commit alone proves nothing.
    """
    if not policy.mode.has_long_running_tasks or observation.offsets is None:
        return True
    return state.offsets is not None and state.offsets != observation.offsets


def with_activity(state: State, observation: Observation, policy: RestartPolicy) -> State:
    """Evidence between commits that the query works."""
    if observation.activity.confirmed_running and not state.committed:
        state = replace(state, committed=True, recovering=False, healthy_since=observation.now)
    if policy.mode is not Mode.CONTINUOUS:
        state = _with_work(state, observation, policy)
    active_tasks = observation.activity.active_tasks
    if active_tasks is None or active_tasks >= state.query_partitions:
        state = replace(state, tasks_complete_at=observation.now)
    if _is_stable(state, observation, policy):
        state = replace(state, attempts=0, query_failures=0)
    return state


def _is_stable(state: State, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether the running query has been healthy for `stable_after`."""
    since = state.healthy_since
    return since is not None and observation.now - since >= policy.stable_after


def _with_work(state: State, observation: Observation, policy: RestartPolicy) -> State:
    """Progress of a batch engine between commits: tasks, rows, offsets, or nothing to do.

    Spark forgets that a query was idle only when the next batch is planned: also one that hangs in
    its source looks idle. One that is idle looks again and again, and says so.
    """
    planned, activity = observation.planned_epoch, observation.activity
    if activity.work != state.work or planned != state.planned_epoch:
        return _progressed(
            replace(
                state,
                work=activity.work,
                planned_epoch=planned,
            ),
            observation,
            policy,
        )
    if activity.idle and activity.looked_at != state.looked_at:
        return replace(state, looked_at=activity.looked_at, last_progress_at=observation.now)
    return state


def _progressed(state: State, observation: Observation, policy: RestartPolicy) -> State:
    """Notes a sign of progress, and how much longer than usual it took to come."""
    waited = observation.now - state.last_progress_at - policy.silence
    return replace(state, last_progress_at=observation.now, slowest=max(state.slowest, waited))


def with_unread(state: State, observation: Observation, policy: RestartPolicy) -> State:
    """Notes since when the source has records that commits leave out.

    A task of the continuous engine or of real-time mode that cannot reach a broker fails never: its
    reader swallows the timeouts (KafkaContinuousPartitionReader.next), and epochs without its
    records are committed on time (measured, Spark 4.2). A micro-batch states which records it
    reads, and fails without them.
    """
    if not policy.mode.has_long_running_tasks:
        return state
    committed = observation.offsets
    if committed is None:  # another source, or a checkpoint that is being purged
        return state
    away = observation.source_outage is not None
    here = frozenset[Position]() if away else _still_at(observation.unread, committed)
    not_read = _still_at(state.not_read, committed)
    return replace(
        state,
        unread_since={each: state.unread_since.get(each, observation.now) for each in here},
        not_read=not_read,
        not_read_failures=state.not_read_failures if not_read else 0,
    )


def _still_at(positions: Iterable[Position], committed: Offsets) -> frozenset[Position]:
    return frozenset(
        (topic, number, offset)
        for topic, number, offset in positions
        if committed.get(topic, {}).get(number) == offset
    )
