"""Decides what to do next about one query. Pure: (state, observation) -> (state, action).

loop.py observes, calls `decide`, executes the action and reports the state. An exception while
observing or acting becomes the failure of the next observation, so all failures are handled here.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from penstock.contract.driver_report import QueryState
from penstock.driver.failure_rules import TASK_FAILED
from penstock.driver.failures import Failure
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.state import Observation, State

# The weight of a new value in the smoothed commit interval.
_SMOOTHING_WEIGHT = 0.3
_SLOW_EPOCHS = (
    "Epochs take more than three times the checkpoint interval because the sink or the transform "
    "is too slow, so a failure replays more records. Give the executors more resources, or use a "
    "longer interval."
)


class Action(Enum):
    """One step of the driver. The duration of each step is bounded."""

    WAIT = auto()
    DISCOVER = auto()
    """Ask the source for its partitions."""
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


def first_state(attempts: int, policy: RestartPolicy) -> State:
    """The state of a new process after `attempts` failures in a row of earlier processes."""
    fresh = State(attempts=attempts)
    if policy.max_attempts is None or attempts < policy.max_attempts:
        return fresh
    exited = Failure("DriverRestarted", "The driver process keeps exiting.")
    return replace(
        fresh, failed_permanently=True, failure=_with_limits(exited, 0, attempts, policy)
    )


def decide(
    state: State, observation: Observation, policy: RestartPolicy, jitter: float
) -> tuple[State, Action]:
    """The next state and action; `jitter` in [0, 1) randomizes the back-off."""
    if observation.failure is not None:
        failure = _or_lost_executor(observation.failure, observation)
        return _on_failure(state, failure, observation.now, policy, jitter)
    if observation.completed:
        done = replace(state, completed=True, failed_permanently=False, retry_at=None)
        return done, Action.WAIT if state.completed else Action.STOP_SESSION
    if state.failed_permanently:
        return _after_permanent_failure(state, observation, policy)
    if state.retry_at is not None and observation.now < state.retry_at:
        return state, Action.WAIT
    state = replace(state, retry_at=None)
    if observation.has_query:
        return _while_running(state, observation, policy, jitter)
    return _towards_start(state, observation)


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
    state: State, failure: Failure, now: float, policy: RestartPolicy, jitter: float
) -> tuple[State, Action]:
    if state.failed_permanently and state.recheck_at is None:  # later failures change nothing
        return state, Action.STOP_SESSION
    poison_failures = state.poison_failures + int(failure.maybe_poison)
    attempts = state.attempts + int(not failure.permanent)
    failure = _with_limits(failure, poison_failures, attempts, policy)
    failed = replace(
        state,
        failure=failure,
        restart_pending=True,
        query_checked=False,
        committed=False,
        source_outage=False,
        healthy_since=None,
        poison_failures=poison_failures,
        attempts=attempts,
    )
    if failure.permanent:
        recheck_at = now + policy.recheck_interval if failure.recoverable else None
        failed = replace(failed, failed_permanently=True, recheck_at=recheck_at, retry_at=None)
        return failed, Action.STOP_SESSION
    stalls = state.stalls + 1 if failure.reason in stall_detection.STALLS else 0
    if stalls >= policy.max_stalls:
        return replace(failed, stalls=stalls), Action.EXIT_PROCESS
    waiting = replace(failed, stalls=stalls, retry_at=now + policy.backoff(attempts, jitter))
    needs_new_session = failure.reason == stall_detection.CORES_LOST
    return waiting, Action.STOP_SESSION if needs_new_session else Action.STOP_QUERY


def _with_limits(
    failure: Failure, poison_failures: int, attempts: int, policy: RestartPolicy
) -> Failure:
    """The failure, which becomes permanent when it has happened too often."""
    if failure.permanent:
        return failure
    if policy.max_attempts is not None and attempts >= policy.max_attempts:
        return replace(
            failure,
            permanent=True,
            recoverable=False,
            message=f"{failure.message} (This was failure {attempts} in a row, and "
            f"restart.maxAttempts is {policy.max_attempts}. Fix the cause, then delete the "
            "driver pod to start again.)",
        )
    return replace(
        failure, permanent=failure.maybe_poison and poison_failures >= policy.max_poison_failures
    )


def _after_permanent_failure(
    state: State, observation: Observation, policy: RestartPolicy
) -> tuple[State, Action]:
    if state.recheck_at is None:
        return state, Action.WAIT
    if observation.partitions is not None:
        return replace(state, failed_permanently=False, recheck_at=None), Action.WAIT
    if observation.now < state.recheck_at:
        return state, Action.WAIT
    return replace(state, recheck_at=observation.now + policy.recheck_interval), Action.DISCOVER


def _towards_start(state: State, observation: Observation) -> tuple[State, Action]:
    """The next step on the way to a running query."""
    if observation.partitions is None:
        return state, Action.DISCOVER
    if not observation.has_session:
        return replace(state, query_checked=False), Action.START_SESSION
    if observation.requested_cores < observation.desired_cores:
        return state, Action.REQUEST_EXECUTORS
    if not state.query_checked:
        return replace(state, query_checked=True), Action.CHECK_QUERY
    if observation.registered_cores < observation.desired_cores:
        return state, Action.WAIT
    started = replace(
        state,
        restart_pending=False,
        restarts=state.restarts + int(state.restart_pending),
        committed=False,
        epoch=observation.epoch,
        last_progress_at=observation.now,
        commit_interval=0.0,
        cores_complete_at=observation.now,
        tasks_complete_at=observation.now,
        healthy_since=None,
        previous_cores=observation.registered_cores,
    )
    return started, Action.START_QUERY


def _while_running(
    state: State, observation: Observation, policy: RestartPolicy, jitter: float
) -> tuple[State, Action]:
    state = _with_activity(_with_commits(state, observation, policy), observation, policy)
    failure = stall_detection.executor_lost(state, observation)
    if failure is not None:
        return _on_failure(state, failure, observation.now, policy, jitter)
    state = replace(state, previous_cores=observation.registered_cores)
    state = _with_source_outage(state, observation)
    if observation.requested_cores < observation.desired_cores:
        return state, Action.REQUEST_EXECUTORS
    if observation.registered_cores < observation.desired_cores:
        state = replace(state, cores_complete_at=observation.now)
        failure = stall_detection.cores_lost(state, observation, policy)
    elif observation.partitions_added:
        return replace(state, query_checked=False, committed=False), Action.STOP_QUERY
    else:
        failure = stall_detection.stall(state, observation, policy)
    if failure is not None:
        failure = observation.source_outage or failure
        return _on_failure(state, failure, observation.now, policy, jitter)
    return state, Action.WAIT


def _with_source_outage(state: State, observation: Observation) -> State:
    """Reports an outage once. It does not stop the query, which continues when it is over."""
    outage = observation.source_outage
    if (outage is not None) == state.source_outage:
        return state
    return replace(state, source_outage=outage is not None, failure=outage or state.failure)


def _with_commits(state: State, observation: Observation, policy: RestartPolicy) -> State:
    if observation.epoch is None or (state.epoch is not None and observation.epoch <= state.epoch):
        return state
    interval = state.commit_interval
    if policy.continuous and state.committed and state.epoch is not None:
        latest = (observation.now - state.last_progress_at) / (observation.epoch - state.epoch)
        interval = latest if interval == 0 else interval + _SMOOTHING_WEIGHT * (latest - interval)
    return replace(
        state,
        epoch=observation.epoch,
        committed=True,
        last_progress_at=observation.now,
        commit_interval=interval,
        stalls=0,
        poison_failures=0,
        healthy_since=observation.now if state.healthy_since is None else state.healthy_since,
    )


def _with_activity(state: State, observation: Observation, policy: RestartPolicy) -> State:
    """Evidence between commits that the query works."""
    if observation.confirmed_running and not state.committed:
        state = replace(state, committed=True, stalls=0, healthy_since=observation.now)
    if observation.idle or observation.batch_running:
        state = replace(state, last_progress_at=observation.now)
    if observation.active_tasks is None or observation.active_tasks >= (
        observation.partitions or 0
    ):
        state = replace(state, tasks_complete_at=observation.now)
    if (
        state.healthy_since is not None
        and observation.now - state.healthy_since >= policy.stable_after
    ):
        state = replace(state, attempts=0)
    return state


def describe(
    state: State, observation: Observation, policy: RestartPolicy
) -> tuple[QueryState, str]:
    """The reported state and its message."""
    if state.failed_permanently and state.failure is not None:
        return QueryState.FAILED, state.failure.message
    if state.completed:
        return QueryState.COMPLETED, ""
    cores = f"{observation.registered_cores} of {observation.desired_cores} cores"
    if (
        observation.has_session
        and observation.registered_cores < observation.desired_cores
        and state.retry_at is None
    ):
        return QueryState.WAITING_FOR_CORES, cores
    if observation.has_query and observation.source_outage is not None:
        return QueryState.RESTARTING, f"waiting for the source: {observation.source_outage.reason}"
    if observation.has_query and state.committed:
        slow = stall_detection.is_slow(state, policy)
        return QueryState.RUNNING, _SLOW_EPOCHS if slow else ""
    if state.failure is not None and (state.restart_pending or state.restarts):
        return QueryState.RESTARTING, f"after {state.failure.reason}"
    return QueryState.STARTING, ""


def is_ready(state: State, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether the query runs and commits regularly, or has completed."""
    return state.completed or (
        observation.has_query
        and state.committed
        and not state.failed_permanently
        and observation.source_outage is None
        and observation.now - state.last_progress_at <= policy.commit_timeout
    )
