"""Observations of a stream with four partitions, and the decisions on them.

A real run makes the same: test_a_real_run_makes_the_observations_of_the_unit_tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.api.modes import Mode
from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.spark.query_activity import NO_ACTIVITY, Activity
from penstock.driver.supervision.next_action import Action, Decision, decide
from penstock.driver.supervision.observation import Observation, nothing_observed
from penstock.driver.supervision.phases import Running, Starting, State
from penstock.driver.supervision.restart_policy import RestartPolicy

POLICY = RestartPolicy(interval=1.0)
CONTINUOUS = RestartPolicy(interval=1.0, mode=Mode.CONTINUOUS)
REAL_TIME = RestartPolicy(interval=300.0, mode=Mode.REAL_TIME)
PASSING = Failure("TaskFailed", "an executor was lost")
PERMANENT = Failure("UnsupportedOperation", "Aggregate", permanent=True)
RECOVERABLE = Failure("TopicMissing", "in", permanent=True, recoverable=True)
MAYBE_POISON = Failure("CastInvalidInput", "a record", recoverable=True, maybe_poison=True)
UP = replace(
    nothing_observed(100.0),
    partitions=4,
    slots=4,
    desired_cores=4,
    requested_cores=4,
    registered_cores=4,
    registered_executors=4,
    has_session=True,
)
_STARTED: dict[Mode, dict[str, Any]] = {
    Mode.CONTINUOUS: {"active_tasks": 0},
    Mode.MICRO_BATCH: {"work": ()},
    Mode.ASYNC: {"work": ()},
    Mode.REAL_TIME: {"work": ()},
}
_WORKING: dict[Mode, dict[str, Any]] = {
    Mode.CONTINUOUS: {"active_tasks": 4},
    Mode.MICRO_BATCH: {"work": (1, 0, 0, 0, 0)},
    Mode.ASYNC: {"work": (1, 0, 0, 0, 0)},
    Mode.REAL_TIME: {"work": (1, 0, 0, 0, 0), "confirmed_running": True},
}
# What is done before a query starts.
CHECKED = State(Starting(checkpoint_checked_at=100.0, query_checked=True))


def activity(**seen: Any) -> Activity:
    """What a query shows between two commits, and nothing else."""
    return replace(NO_ACTIVITY, **seen)


def decided(state: State, observation: Observation, policy: RestartPolicy = POLICY) -> Decision:
    """The supervisor's decision, in the middle of the back-off."""
    return decide(state, observation, policy, 0.5)


def action(state: State, observation: Observation, policy: RestartPolicy = POLICY) -> Action:
    """The action that the supervisor decides on."""
    return decided(state, observation, policy).action


def actions(
    state: State, observations: Sequence[Observation], policy: RestartPolicy = POLICY
) -> tuple[State, list[Action]]:
    """The last state, and the actions on observations that follow one another."""
    taken = []
    for observation in observations:
        state, what, _ = decided(state, observation, policy)
        taken.append(what)
    return state, taken


def after(state: State, observation: Observation, policy: RestartPolicy = POLICY) -> State:
    """The state after the decision."""
    return decided(state, observation, policy).state


def remembering(state: State, **history: Any) -> State:
    """The state with this in its history."""
    return replace(state, history=replace(state.history, **history))


def run_of(state: State) -> Running:
    """The run of a query that runs."""
    assert isinstance(state.phase, Running)
    return state.phase


def running(
    epoch: int | None = None,
    now: float = 100.0,
    policy: RestartPolicy = POLICY,
    first: State = CHECKED,
) -> tuple[State, Observation]:
    """State and observation of a query that has just started at this epoch, after `first`."""
    ready = Starting(after=first.failure, checkpoint_checked_at=now, query_checked=True)
    seen = replace(UP, now=now, epoch=epoch, offsets=_offsets(epoch))
    state, shows = after(replace(first, phase=ready), seen, policy), _STARTED[policy.mode]
    return state, replace(seen, has_query=True, activity=activity(**shows))


def committing(
    epoch: int, policy: RestartPolicy = POLICY, first: State = CHECKED
) -> tuple[State, Observation]:
    """The same of a query that has committed this epoch, one second after its start."""
    state, observation = running(epoch - 1, policy=policy, first=first)
    observation = replace(
        observation,
        now=101.0,
        epoch=epoch,
        offsets=_offsets(epoch),
        planned_epoch=epoch,
        activity=activity(**_WORKING[policy.mode]),
    )
    return after(state, observation, policy), observation


def _offsets(epoch: int | None) -> Offsets | None:
    """Each epoch has ten records, all of one partition."""
    return None if epoch is None else {"in": {0: 10 * epoch + 10, 1: 7, 2: 7, 3: 50}}
