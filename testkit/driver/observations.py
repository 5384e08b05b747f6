"""Observations of a stream with four partitions, and the decisions on them."""

from __future__ import annotations

from dataclasses import replace

from penstock.driver.failures import Failure
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.state import Observation, State
from penstock.driver.supervision.supervisor import Action, decide

POLICY = RestartPolicy(interval=1.0)
PASSING = Failure("TaskFailed", "an executor was lost")
PERMANENT = Failure("UnsupportedOperation", "Aggregate", permanent=True)
RECOVERABLE = Failure("TopicMissing", "in", permanent=True, recoverable=True)
MAYBE_POISON = Failure("CastInvalidInput", "a record", maybe_poison=True)
UP = Observation(
    now=100.0,
    partitions=4,
    desired_cores=4,
    requested_cores=4,
    registered_cores=4,
    has_session=True,
)


def action(state: State, observation: Observation) -> Action:
    """The action that the supervisor decides on."""
    return decide(state, observation, POLICY, 0.5)[1]


def after(state: State, observation: Observation) -> State:
    """The state after the decision."""
    return decide(state, observation, POLICY, 0.5)[0]


def running(epoch: int | None = None, now: float = 100.0) -> tuple[State, Observation]:
    """State and observation of a query that has just started at this epoch."""
    state = after(State(query_checked=True), replace(UP, now=now, epoch=epoch))
    return state, replace(UP, now=now, has_query=True, epoch=epoch)
