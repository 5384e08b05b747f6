"""What to do next about one query. Pure: (state, what is seen) -> (state, action).

The loop in `loop.py` looks, asks here, does what it is told and reports the state. Whatever goes
wrong while looking or doing comes back here as the next sight's trouble, so every failure takes the
same road.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import TASK_FAILED, Failure
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.restart_policy import Policy
from penstock.driver.supervision.state import Observation, State

# How much a new value counts in the smoothed pace of commits.
_FRESH = 0.3
_BEHIND = (
    "Epochs take more than three times the checkpoint interval: the sink or the transform cannot "
    "keep up, so a failure replays more. Give the executors more, or lengthen the interval"
)


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
    STOP_SESSION = auto()
    """Stop query and session, so that no executor is held; the driver stays up."""
    EXIT_PROCESS = auto()
    """End the process: the kubelet makes a new one."""


def first_state(attempts: int, policy: Policy) -> State:
    """Where a process begins, after so many failures in a row of earlier ones."""
    fresh = State(attempts=attempts)
    if policy.max_attempts is None or attempts < policy.max_attempts:
        return fresh
    ended = Failure("DriverRestarted", "the driver's process ended again and again.")
    return replace(fresh, halted=True, failure=_final(ended, 0, attempts, policy))


def decide(
    state: State, observation: Observation, policy: Policy, jitter: float
) -> tuple[State, Action]:
    """The next step."""
    if observation.failure is not None:
        return _failed(
            state, _named(observation.failure, observation), observation.now, policy, jitter
        )
    if observation.completed:
        done = replace(state, completed=True, halted=False, retry_at=None)
        return done, Action.WAIT if state.completed else Action.STOP_SESSION
    if state.halted:
        return _halted(state, observation, policy)
    if state.retry_at is not None and observation.now < state.retry_at:
        return state, Action.WAIT
    state = replace(state, retry_at=None)
    if observation.query:
        return _running(state, observation, policy, jitter)
    return _towards_a_query(state, observation)


def _named(failure: Failure, observation: Observation) -> Failure:
    """A lost executor has no exception of its own: Spark only says that a task has failed."""
    if (
        failure.reason == TASK_FAILED
        and observation.session
        and observation.cores < observation.cores_wanted
    ):
        return replace(failure, reason=stall_detection.EXECUTOR_LOST)
    return failure


def _failed(
    state: State, failure: Failure, now: float, policy: Policy, jitter: float
) -> tuple[State, Action]:
    if state.halted and state.look_at is None:  # for good: what fails afterwards changes nothing
        return state, Action.STOP_SESSION
    poison_failures = state.poison_failures + int(failure.maybe_poison)
    attempts = state.attempts + int(not failure.permanent)
    failure = _final(failure, poison_failures, attempts, policy)
    down = replace(
        state,
        failure=failure,
        owed=True,
        checked=False,
        committed=False,
        away=False,
        healthy_since=None,
        poison_failures=poison_failures,
        attempts=attempts,
    )
    if failure.permanent:
        look_at = now + policy.look_again if failure.recoverable else None
        return replace(down, halted=True, look_at=look_at, retry_at=None), Action.STOP_SESSION
    stuck = state.stuck + 1 if failure.reason in stall_detection.STUCK else 0
    if stuck >= policy.stuck_at_most:
        return replace(down, stuck=stuck), Action.EXIT_PROCESS
    waiting = replace(down, stuck=stuck, retry_at=now + policy.delay(attempts, jitter))
    is_session_lost = failure.reason == stall_detection.CORES_LOST
    return waiting, Action.STOP_SESSION if is_session_lost else Action.STOP_QUERY


def _final(failure: Failure, poison_failures: int, attempts: int, policy: Policy) -> Failure:
    """A passing failure is permanent in the end, if it comes again and again."""
    if failure.permanent:
        return failure
    if policy.max_attempts is not None and attempts >= policy.max_attempts:
        return replace(
            failure,
            permanent=True,
            recoverable=False,
            message=f"{failure.message} (It was failure {attempts} in a row, and "
            f"restart.maxAttempts is {policy.max_attempts}. Mend the cause, then delete the "
            "driver's pod to begin anew.)",
        )
    return replace(
        failure, permanent=failure.maybe_poison and poison_failures >= policy.max_poison_failures
    )


def _halted(state: State, observation: Observation, policy: Policy) -> tuple[State, Action]:
    if state.look_at is None:
        return state, Action.WAIT
    if observation.partitions is not None:
        return replace(state, halted=False, look_at=None), Action.WAIT
    if observation.now < state.look_at:
        return state, Action.WAIT
    return replace(state, look_at=observation.now + policy.look_again), Action.DISCOVER


def _towards_a_query(state: State, observation: Observation) -> tuple[State, Action]:
    if observation.partitions is None:
        return state, Action.DISCOVER
    if not observation.session:
        return replace(state, checked=False), Action.START_SESSION
    if observation.cores_requested < observation.cores_wanted:
        return state, Action.REQUEST_EXECUTORS
    if not state.checked:
        return replace(state, checked=True), Action.CHECK_QUERY
    if observation.cores < observation.cores_wanted:
        return state, Action.WAIT
    started = replace(
        state,
        owed=False,
        restarts=state.restarts + int(state.owed),
        committed=False,
        epoch=observation.epoch,
        commit_at=observation.now,
        pace=0.0,
        cores_at=observation.now,
        tasks_at=observation.now,
        healthy_since=None,
        cores_had=observation.cores,
    )
    return started, Action.START_QUERY


def _running(
    state: State, observation: Observation, policy: Policy, jitter: float
) -> tuple[State, Action]:
    state = _with_signs_of_life(_with_commits(state, observation, policy), observation, policy)
    failure = stall_detection.executor_lost(state, observation)
    if failure is not None:
        return _failed(state, failure, observation.now, policy, jitter)
    state = _with_its_source(replace(state, cores_had=observation.cores), observation)
    if observation.cores_requested < observation.cores_wanted:
        return state, Action.REQUEST_EXECUTORS
    if observation.cores < observation.cores_wanted:
        state, failure = (
            replace(state, cores_at=observation.now),
            stall_detection.cores_lost(state, observation, policy),
        )
    elif observation.outgrown:
        return replace(state, checked=False, committed=False), Action.STOP_QUERY
    else:
        failure = stall_detection.stuck(state, observation, policy)
    if failure is not None:
        return _failed(state, observation.away or failure, observation.now, policy, jitter)
    return state, Action.WAIT


def _with_its_source(state: State, observation: Observation) -> State:
    """That the source is away is news once, and no failure: the query goes on when it is back."""
    if (observation.away is not None) == state.away:
        return state
    return replace(
        state, away=observation.away is not None, failure=observation.away or state.failure
    )


def _with_commits(state: State, observation: Observation, policy: Policy) -> State:
    """What a new commit changes."""
    if observation.epoch is None or (state.epoch is not None and observation.epoch <= state.epoch):
        return state
    pace = state.pace
    if policy.continuous and state.committed and state.epoch is not None:
        latest = (observation.now - state.commit_at) / (observation.epoch - state.epoch)
        pace = latest if pace == 0 else pace + _FRESH * (latest - pace)
    return replace(
        state,
        epoch=observation.epoch,
        committed=True,
        commit_at=observation.now,
        pace=pace,
        stuck=0,
        poison_failures=0,
        healthy_since=observation.now if state.healthy_since is None else state.healthy_since,
    )


def _with_signs_of_life(state: State, observation: Observation, policy: Policy) -> State:
    """What shows that all is well between commits."""
    if observation.flowing and not state.committed:
        state = replace(state, committed=True, stuck=0, healthy_since=observation.now)
    if observation.idle or observation.busy:
        state = replace(state, commit_at=observation.now)
    if observation.tasks is None or observation.tasks >= (observation.partitions or 0):
        state = replace(state, tasks_at=observation.now)
    if (
        state.healthy_since is not None
        and observation.now - state.healthy_since >= policy.stable_after
    ):
        state = replace(state, attempts=0)
    return state


def describe(state: State, observation: Observation, policy: Policy) -> tuple[QueryState, str]:
    """The state in a word and a sentence, for the report."""
    if state.halted and state.failure is not None:
        return QueryState.FAILED, state.failure.message
    if state.completed:
        return QueryState.COMPLETED, ""
    cores = f"{observation.cores} of {observation.cores_wanted} cores"
    if (
        observation.session
        and observation.cores < observation.cores_wanted
        and state.retry_at is None
    ):
        return QueryState.WAITING_FOR_CORES, cores
    if observation.query and observation.away is not None:
        return QueryState.RESTARTING, f"waiting for the source: {observation.away.reason}"
    if observation.query and state.committed:
        return QueryState.RUNNING, _BEHIND if stall_detection.is_behind(state, policy) else ""
    if state.failure is not None and (state.owed or state.restarts):
        return QueryState.RESTARTING, f"after {state.failure.reason}"
    return QueryState.STARTING, ""


def is_ready(state: State, observation: Observation, policy: Policy) -> bool:
    """Whether the query runs and keeps committing, or has done all it had to do."""
    return state.completed or (
        observation.query
        and state.committed
        and not state.halted
        and observation.away is None
        and observation.now - state.commit_at <= policy.patience
    )
