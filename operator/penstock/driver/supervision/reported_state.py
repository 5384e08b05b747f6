"""The state of the query that the driver reports, and whether it is ready. Pure."""

from __future__ import annotations

from penstock.contract.driver_report import QueryState
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.observation import Observation, State
from penstock.driver.supervision.restart_policy import RestartPolicy

_SLOW_EPOCHS = (
    "Epochs take more than three times the checkpoint interval because the sink or the transform "
    "is too slow, so a failure replays more records. Give the executors more resources, or use a "
    "longer interval."
)


def describe(
    state: State, observation: Observation, policy: RestartPolicy
) -> tuple[QueryState, str]:
    """The reported state and its message."""
    if state.failed_permanently and state.failure is not None:
        return QueryState.FAILED, state.failure.message
    if state.completed:
        return QueryState.COMPLETED, ""
    if _waits_for_cores(state, observation, policy):
        return QueryState.WAITING_FOR_CORES, _cores(observation)
    if observation.has_query and state.interruption is not None:
        return QueryState.RESTARTING, f"the query runs on, but: {state.interruption}"
    if observation.has_query and state.committed:
        return QueryState.RUNNING, _running_message(state, observation, policy)
    if state.failure is not None and state.recovering:
        return QueryState.RESTARTING, f"after {state.failure.reason}"
    return QueryState.STARTING, ""


def _waits_for_cores(state: State, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether cores are missing, unless a micro-batch runs with those that are there."""
    wanted = observation.desired_cores
    if observation.has_query and not policy.mode.has_long_running_tasks:
        wanted = stall_detection.needed_cores(state, observation, policy)
    return (
        observation.has_session and observation.registered_cores < wanted and state.retry_at is None
    )


def _cores(observation: Observation) -> str:
    return f"{observation.registered_cores} of {observation.desired_cores} cores"


def _running_message(state: State, observation: Observation, policy: RestartPolicy) -> str:
    if observation.warning is not None:
        return observation.warning.message
    if observation.registered_cores < observation.desired_cores:
        return f"The query runs with {_cores(observation)}."
    return _SLOW_EPOCHS if stall_detection.is_slow(state, policy) else ""


def is_ready(state: State, observation: Observation) -> bool:
    """Whether the query runs and makes progress, or has completed."""
    return state.completed or (
        observation.has_query
        and state.committed
        and not state.failed_permanently
        and state.interruption is None
    )
