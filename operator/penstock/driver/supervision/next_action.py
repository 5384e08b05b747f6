"""Decides what to do next about one query. Pure: (state, observation) -> (state, action).

loop.py observes, calls `decide`, executes the action and reports the state. An exception while
observing or acting becomes the failure of the next observation, so all failures are handled here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum, auto

from penstock.driver.failures import QUERY_NOT_STOPPED, TASK_FAILED, Failure
from penstock.driver.supervision import run_progress, stall_detection
from penstock.driver.supervision.history import DurableState
from penstock.driver.supervision.observation import Observation, State
from penstock.driver.supervision.restart_policy import RestartPolicy

# A check of the checkpoint is repeated if the query does not start within this time. The steps in
# between take two minutes at most.
_CHECK_SECONDS = 180.0
# What a new query in the same executors may not repair.
_NEED_NEW_SESSION = frozenset(
    {
        stall_detection.CORES_LOST,
        stall_detection.CLOCK_SET_BACK,
        stall_detection.PARTITIONS_NOT_READ,
    }
)


class Action(Enum):
    """One step of the driver. The duration of each step is bounded."""

    WAIT = auto()
    DISCOVER = auto()
    """Ask the source for its partitions."""
    CHECK_CHECKPOINT = auto()
    """Repair the checkpoint and look for lost records, before anything is started."""
    START_SESSION = auto()
    """Start Spark, and with it the executors."""
    CHECK_QUERY = auto()
    """Plan the query, so that a query that Spark refuses does not wait for its executors."""
    REQUEST_EXECUTORS = auto()
    START_QUERY = auto()
    STOP_QUERY = auto()
    """Stop the query and keep the session."""
    STOP_SESSION = auto()
    """Stop the query and the session, which releases the executors; the driver keeps running."""
    EXIT_PROCESS = auto()
    """Exit; the kubelet starts a new process."""


def first_state(known: DurableState, policy: RestartPolicy) -> State:
    """The state of a new process, which has exited once more than `known` says."""
    fresh = State(
        proved=known.proved,
        attempts=known.attempts,
        poison_failures=known.poison_failures,
        stalls=known.stalls,
        slowest=known.slowest,
    )
    if policy.max_attempts is None or known.attempts < policy.max_attempts:
        return fresh
    exited = Failure("DriverRestarted", "The driver process keeps exiting.")
    return replace(
        fresh,
        failed_permanently=True,
        failure=_after_max_attempts(exited, known.attempts, policy),
    )


def durable_state(state: State, policy: RestartPolicy, *, counted: bool = False) -> DurableState:
    """What a later process must know, as if this one crashed now: that is one more attempt.

    `counted`: the process exits for a failure that is one of the attempts already. The slowest
    progress is rounded up to a power of two, so that it is rarely written.
    """
    matters = stall_detection.is_patience_for(state, policy)
    return DurableState(
        proved=state.proved,
        attempts=state.attempts + int(not counted),
        poison_failures=state.poison_failures,
        stalls=state.stalls,
        slowest=2.0 ** math.ceil(math.log2(state.slowest)) if matters else 0.0,
    )


def decide(
    state: State, observation: Observation, policy: RestartPolicy, jitter: float
) -> tuple[State, Action]:
    """The next state and action; `jitter` in [0, 1) randomizes the back-off."""
    ended = observation.failure is not None or observation.completed
    if state.started and (observation.has_query or ended):
        state = run_progress.with_commits(state, observation, policy)
    if observation.failure is not None:
        failure = _or_lost_executor(observation.failure, observation)
        return _on_failure(state, failure, observation, policy, jitter)
    if observation.completed:
        done = replace(state, completed=True, failed_permanently=False, retry_at=None)
        return done, Action.WAIT if state.completed else Action.STOP_SESSION
    if state.retry_at is not None and observation.now < state.retry_at:
        return state, Action.WAIT
    if state.failed_permanently:
        return _after_permanent_failure(state, observation)
    state = replace(state, retry_at=None)
    if observation.has_query:
        return _while_running(state, observation, policy, jitter)
    return _towards_start(state, observation, policy)


def _or_lost_executor(failure: Failure, observation: Observation) -> Failure:
    """A lost executor has no exception of its own: Spark only reports that a task failed."""
    if (
        failure.reason == TASK_FAILED
        and observation.has_session
        and observation.registered_cores < observation.desired_cores
    ):
        return replace(failure, reason=stall_detection.EXECUTOR_LOST)
    return failure


def _on_failure(
    state: State, failure: Failure, observation: Observation, policy: RestartPolicy, jitter: float
) -> tuple[State, Action]:
    """Decides when to try again: soon, after a recheck delay, or never.

    A spec that has committed an epoch can run, so whatever fails later may come back by itself. It
    is tried again for ever, unless the spec itself asks for an end.
    """
    if state.failed_permanently and state.retry_at is None:  # later failures change nothing
        return state, Action.STOP_SESSION
    now, had_executors = observation.now, observation.has_session
    failed = replace(
        state,
        restart_pending=True,
        checkpoint_checked_at=None,
        query_checked=False,
        committed=False,
        interruption=None,
        warning=None,
        healthy_since=None,
        poison_failures=state.poison_failures + int(failure.maybe_poison),
        attempts=state.attempts + int(not failure.recoverable),
        stalls=state.stalls + int(failure.reason in stall_detection.STALLS),
        query_failures=state.query_failures + int(state.started and not state.restart_pending),
        failed_permanently=False,
        retry_at=None,
        recovering=True,
    )
    if _attempts_are_used_up(failed, failure, policy):
        final = _after_max_attempts(failure, _failures_in_a_row(failed), policy)
        return replace(failed, failure=final, failed_permanently=True), Action.STOP_SESSION
    if failure.reason == QUERY_NOT_STOPPED:
        return replace(failed, failure=failure), Action.EXIT_PROCESS
    poisoned = failure.maybe_poison and failed.poison_failures >= policy.max_poison_failures
    if failure.permanent or poisoned:
        rechecks = state.rechecks + int(had_executors)
        delay = policy.recheck_delay(rechecks) if had_executors else policy.recheck_interval
        delay = max(delay, policy.recheck_cap) if poisoned else delay
        ends = failure.asked_for or not state.proved
        again = failure.recoverable or not ends
        failed = replace(
            failed,
            failure=replace(failure, permanent=ends),
            failed_permanently=ends,
            rechecks=rechecks,
            retry_at=now + delay if again else None,
        )
        return failed, Action.STOP_SESSION
    failed = replace(failed, failure=failure)
    if failure.reason in stall_detection.STALLS and failed.stalls % policy.max_stalls == 0:
        return failed, Action.EXIT_PROCESS
    not_started = not had_executors or state.checkpoint_checked_at is not None
    delay = policy.backoff(failed.attempts, jitter, waiting=not_started)
    return replace(failed, retry_at=now + delay), _next_rung(state, failed, failure, policy)


def _next_rung(before: State, failed: State, failure: Failure, policy: RestartPolicy) -> Action:
    """How much of the stream is restarted.

    What fails again and again may be in the executors, such as a class that a passing error has
    left unusable, or in the driver's JVM. A new session also takes their place in the cluster.
    """
    if failure.reason in _NEED_NEW_SESSION:
        return Action.STOP_SESSION
    again = failed.query_failures > before.query_failures
    if not again or failure.maybe_poison or failure.reason in stall_detection.DETECTED:
        return Action.STOP_QUERY
    if failed.query_failures % policy.new_process_after == 0:
        return Action.EXIT_PROCESS
    if failed.query_failures % policy.new_session_after == 0:
        return Action.STOP_SESSION
    return Action.STOP_QUERY


def _attempts_are_used_up(state: State, failure: Failure, policy: RestartPolicy) -> bool:
    return (
        policy.max_attempts is not None
        and _failures_in_a_row(state) >= policy.max_attempts
        and (failure.maybe_poison or not failure.recoverable)
        and (state.proved or not failure.permanent)
    )


def _failures_in_a_row(state: State) -> int:
    """Those over a record do not count for the back-off: ten of them are soon over."""
    return state.attempts + state.poison_failures


def _after_max_attempts(failure: Failure, attempts: int, policy: RestartPolicy) -> Failure:
    return replace(
        failure,
        permanent=True,
        recoverable=False,
        asked_for=True,
        message=f"{failure.message} (This was failure {attempts} in a row, and "
        f"restart.maxAttempts is {policy.max_attempts}. Fix the cause, then delete the "
        "driver pod to start again.)",
    )


def _after_permanent_failure(state: State, observation: Observation) -> tuple[State, Action]:
    """Looks again, once it is time for it, by the steps that need no executors."""
    if observation.has_query:
        return state, Action.STOP_SESSION
    if state.retry_at is None:
        return state, Action.WAIT
    if observation.partitions is None:
        return state, Action.DISCOVER
    if state.checkpoint_checked_at is None:
        return replace(state, checkpoint_checked_at=observation.now), Action.CHECK_CHECKPOINT
    return replace(state, failed_permanently=False, retry_at=None), Action.WAIT


def _towards_start(
    state: State, observation: Observation, policy: RestartPolicy
) -> tuple[State, Action]:
    """The next step on the way to a running query."""
    if observation.partitions is None:
        return replace(state, checkpoint_checked_at=None), Action.DISCOVER
    if state.checkpoint_checked_at is None:
        checked = replace(state, checkpoint_checked_at=observation.now, query_checked=False)
        return checked, Action.CHECK_CHECKPOINT
    if not observation.has_session:
        return replace(state, query_checked=False, session_since=None), Action.START_SESSION
    checked_at = state.checkpoint_checked_at
    if state.session_since is None:
        state = replace(state, session_since=observation.now)
    if observation.requested_cores < observation.desired_cores:
        return state, Action.REQUEST_EXECUTORS
    if not state.query_checked:
        return replace(state, query_checked=True), Action.CHECK_QUERY
    if not _has_cores_to_start(state, observation, policy):
        return state, Action.WAIT
    if observation.now - checked_at > _CHECK_SECONDS:
        # While the cores were awaited, records may have been deleted, or a topic recreated.
        return replace(state, checkpoint_checked_at=None), Action.WAIT
    started = replace(
        state,
        restart_pending=False,
        restarts=state.restarts + int(state.restart_pending),
        checkpoint_checked_at=None,
        started=True,
        committed=False,
        epoch=observation.epoch,
        offsets=observation.offsets,
        committed_at=observation.now,
        unread_since={},
        last_progress_at=observation.now,
        commit_interval=0.0,
        planned_epoch=observation.planned_epoch,
        work=None,
        cores_complete_at=observation.now,
        tasks_complete_at=observation.now,
        source_answers_since=observation.now,
        healthy_since=None,
        wall_clock=observation.wall_clock,
        query_partitions=observation.partitions,
        previous_cores=observation.registered_cores,
    )
    return started, Action.START_QUERY


def _has_cores_to_start(state: State, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether the query may start: a micro-batch also runs with fewer cores, after a while."""
    if observation.registered_cores >= observation.desired_cores:
        return True
    assert state.session_since is not None
    return (
        not policy.mode.has_long_running_tasks
        and observation.now - state.session_since > policy.cores_patience
        and observation.registered_cores >= stall_detection.needed_cores(state, observation, policy)
    )


def _while_running(
    state: State, observation: Observation, policy: RestartPolicy, jitter: float
) -> tuple[State, Action]:
    state = run_progress.with_activity(state, observation, policy)
    state = run_progress.with_unread(state, observation, policy)
    failure = stall_detection.clock_set_back(state, observation) or stall_detection.executor_lost(
        state, observation, policy
    )
    if failure is not None:
        return _on_failure(state, failure, observation, policy, jitter)
    state = replace(
        state, previous_cores=observation.registered_cores, wall_clock=observation.wall_clock
    )
    state = _with_interruption(state, observation, policy)
    if observation.requested_cores < observation.desired_cores:
        return state, Action.REQUEST_EXECUTORS
    if observation.registered_cores < stall_detection.needed_cores(state, observation, policy):
        state = replace(state, cores_complete_at=observation.now)
        failure = stall_detection.cores_lost(state, observation, policy)
    elif observation.partitions_added and observation.registered_cores >= observation.desired_cores:
        stopped = replace(state, checkpoint_checked_at=None, query_checked=False, committed=False)
        return stopped, Action.STOP_QUERY
    else:
        state, failure = stall_detection.not_read(state, policy)
        failure = failure or stall_detection.stall(state, observation, policy)
    if failure is not None:
        return _on_failure(state, failure, observation, policy, jitter)
    return state, Action.WAIT


def _with_interruption(state: State, observation: Observation, policy: RestartPolicy) -> State:
    """Reports once that the source is away, or that the query does not progress or read it all.

    The query is left running: it may continue by itself.
    """
    late = stall_detection.late(state, observation, policy)
    unread = stall_detection.unread(state, policy)
    found = observation.source_outage or late or unread
    if late is not None or unread is not None:
        state = replace(state, healthy_since=None)
    if observation.source_outage is not None:
        state = replace(state, source_answers_since=observation.now)
    reason = None if found is None else found.reason
    if reason != state.interruption:
        state = replace(state, interruption=reason, failure=found or state.failure)
    warning = observation.warning
    if (None if warning is None else warning.reason) != state.warning:
        state = replace(
            state,
            warning=None if warning is None else warning.reason,
            failure=warning or state.failure,
        )
    return state
