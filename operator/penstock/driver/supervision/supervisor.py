"""What to do next about one query. Pure: (state, what is seen) -> (state, action).

The loop in `loop.py` looks, asks here, does what it is told and reports the state. Whatever goes
wrong while looking or doing comes back here as the next sight's trouble, so every failure takes the
same road.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import TASK_FAILED, Trouble
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.restart_policy import Policy
from penstock.driver.supervision.state import Sight, State

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
    LET_GO = auto()
    """Stop query and session, so that no executor is held; the driver stays up."""
    GIVE_UP = auto()
    """End the process: the kubelet makes a new one."""


def first_state(attempts: int, policy: Policy) -> State:
    """Where a process begins, after so many failures in a row of earlier ones."""
    fresh = State(attempts=attempts)
    if policy.max_attempts is None or attempts < policy.max_attempts:
        return fresh
    ended = Trouble("DriverRestarted", "the driver's process ended again and again.")
    return replace(fresh, halted=True, trouble=_final(ended, 0, attempts, policy))


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
        return replace(trouble, reason=stall_detection.EXECUTOR_LOST)
    return trouble


def _failed(
    state: State, trouble: Trouble, now: float, policy: Policy, jitter: float
) -> tuple[State, Action]:
    if state.halted and state.look_at is None:  # for good: what fails afterwards changes nothing
        return state, Action.LET_GO
    suspicions = state.suspicions + int(trouble.suspect)
    attempts = state.attempts + int(not trouble.permanent)
    trouble = _final(trouble, suspicions, attempts, policy)
    down = replace(
        state,
        trouble=trouble,
        owed=True,
        checked=False,
        committed=False,
        away=False,
        healthy_since=None,
        suspicions=suspicions,
        attempts=attempts,
    )
    if trouble.permanent:
        look_at = now + policy.look_again if trouble.curable else None
        return replace(down, halted=True, look_at=look_at, retry_at=None), Action.LET_GO
    stuck = state.stuck + 1 if trouble.reason in stall_detection.STUCK else 0
    if stuck >= policy.stuck_at_most:
        return replace(down, stuck=stuck), Action.GIVE_UP
    waiting = replace(down, stuck=stuck, retry_at=now + policy.delay(attempts, jitter))
    is_session_lost = trouble.reason == stall_detection.CORES_LOST
    return waiting, Action.LET_GO if is_session_lost else Action.STOP_QUERY


def _final(trouble: Trouble, suspicions: int, attempts: int, policy: Policy) -> Trouble:
    """A passing failure is permanent in the end, if it comes again and again."""
    if trouble.permanent:
        return trouble
    if policy.max_attempts is not None and attempts >= policy.max_attempts:
        return replace(
            trouble,
            permanent=True,
            curable=False,
            message=f"{trouble.message} (It was failure {attempts} in a row, and "
            f"restart.maxAttempts is {policy.max_attempts}. Mend the cause, then delete the "
            "driver's pod to begin anew.)",
        )
    return replace(trouble, permanent=trouble.suspect and suspicions >= policy.suspect_at_most)


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
        pace=0.0,
        cores_at=sight.now,
        tasks_at=sight.now,
        healthy_since=None,
        cores_had=sight.cores,
    )
    return started, Action.START_QUERY


def _running(state: State, sight: Sight, policy: Policy, jitter: float) -> tuple[State, Action]:
    state = _with_signs_of_life(_with_commits(state, sight, policy), sight, policy)
    trouble = stall_detection.executor_lost(state, sight)
    if trouble is not None:
        return _failed(state, trouble, sight.now, policy, jitter)
    state = _with_its_source(replace(state, cores_had=sight.cores), sight)
    if sight.cores_requested < sight.cores_wanted:
        return state, Action.REQUEST_EXECUTORS
    if sight.cores < sight.cores_wanted:
        state, trouble = (
            replace(state, cores_at=sight.now),
            stall_detection.cores_lost(state, sight, policy),
        )
    elif sight.outgrown:
        return replace(state, checked=False, committed=False), Action.STOP_QUERY
    else:
        trouble = stall_detection.stuck(state, sight, policy)
    if trouble is not None:
        return _failed(state, sight.away or trouble, sight.now, policy, jitter)
    return state, Action.WAIT


def _with_its_source(state: State, sight: Sight) -> State:
    """That the source is away is news once, and no failure: the query goes on when it is back."""
    if (sight.away is not None) == state.away:
        return state
    return replace(state, away=sight.away is not None, trouble=sight.away or state.trouble)


def _with_commits(state: State, sight: Sight, policy: Policy) -> State:
    """What a new commit changes."""
    if sight.epoch is None or (state.epoch is not None and sight.epoch <= state.epoch):
        return state
    pace = state.pace
    if policy.continuous and state.committed and state.epoch is not None:
        latest = (sight.now - state.commit_at) / (sight.epoch - state.epoch)
        pace = latest if pace == 0 else pace + _FRESH * (latest - pace)
    return replace(
        state,
        epoch=sight.epoch,
        committed=True,
        commit_at=sight.now,
        pace=pace,
        stuck=0,
        suspicions=0,
        healthy_since=sight.now if state.healthy_since is None else state.healthy_since,
    )


def _with_signs_of_life(state: State, sight: Sight, policy: Policy) -> State:
    """What shows that all is well between commits."""
    if sight.flowing and not state.committed:
        state = replace(state, committed=True, stuck=0, healthy_since=sight.now)
    if sight.idle or sight.busy:
        state = replace(state, commit_at=sight.now)
    if sight.tasks is None or sight.tasks >= (sight.partitions or 0):
        state = replace(state, tasks_at=sight.now)
    if state.healthy_since is not None and sight.now - state.healthy_since >= policy.stable_after:
        state = replace(state, attempts=0)
    return state


def describe(state: State, sight: Sight, policy: Policy) -> tuple[QueryState, str]:
    """The state in a word and a sentence, for the report."""
    if state.halted and state.trouble is not None:
        return QueryState.FAILED, state.trouble.message
    if state.completed:
        return QueryState.COMPLETED, ""
    cores = f"{sight.cores} of {sight.cores_wanted} cores"
    if sight.session and sight.cores < sight.cores_wanted and state.retry_at is None:
        return QueryState.WAITING_FOR_CORES, cores
    if sight.query and sight.away is not None:
        return QueryState.RESTARTING, f"waiting for the source: {sight.away.reason}"
    if sight.query and state.committed:
        return QueryState.RUNNING, _BEHIND if stall_detection.is_behind(state, policy) else ""
    if state.trouble is not None and (state.owed or state.restarts):
        return QueryState.RESTARTING, f"after {state.trouble.reason}"
    return QueryState.STARTING, ""


def is_ready(state: State, sight: Sight, policy: Policy) -> bool:
    """Whether the query runs and keeps committing, or has done all it had to do."""
    return state.completed or (
        sight.query
        and state.committed
        and not state.halted
        and sight.away is None
        and sight.now - state.commit_at <= policy.patience
    )
