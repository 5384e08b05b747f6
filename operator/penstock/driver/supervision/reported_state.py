"""The state of the query that the driver reports, and whether it is ready. Pure."""

from __future__ import annotations

from penstock.api.modes import Mode
from penstock.contract.driver_report import QueryState
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.next_action import Action
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.phases import BackingOff, Completed, Failed, Running, State
from penstock.driver.supervision.restart_policy import RestartPolicy

_SLOW_EPOCHS = (
    "Epochs take more than three times the checkpoint interval because the sink or the transform "
    "is too slow, so a failure replays more records. Give the executors more resources, or use a "
    "longer interval."
)
_NO_EPOCH_YET = "The query runs and has not committed its first epoch yet"
# Each new message is a write to the API server.
_SAID_EVERY_SECONDS = 10
# What shows that a query works that has not committed (query_activity.py).
_WORKS_WITHOUT_COMMIT = {
    Mode.REAL_TIME: "All tasks of the query run, and its first batch has not ended",
}
_STEPS = {
    Action.START_SESSION: "Starting Spark",
    Action.CHECK_CHECKPOINT: "Checking the checkpoint",
    Action.CHECK_QUERY: "Planning the query",
    Action.REPARTITION_STATE: "Dividing the state into other partitions",
    Action.START_QUERY: "Asking Spark to start the query",
}
_WAITS_FOR_RECORDS = "The query has looked for records, found none, and waits for some"


def describe(
    state: State, observation: Observation, policy: RestartPolicy
) -> tuple[QueryState, str]:
    """The reported state and its message."""
    phase = state.phase
    if isinstance(phase, Failed):
        return QueryState.FAILED, phase.failure.message
    if isinstance(phase, Completed):
        return QueryState.COMPLETED, ""
    if not isinstance(phase, BackingOff) and _lacks_cores(observation, policy):
        return QueryState.WAITING_FOR_CORES, _cores(observation)
    if isinstance(phase, Running) and phase.interruption is not None:
        return QueryState.RESTARTING, f"the query runs on, but: {phase.interruption}"
    if isinstance(phase, Running) and phase.confirmed:
        return QueryState.RUNNING, _running_message(phase, observation, policy)
    if state.failure is not None:
        return QueryState.RESTARTING, f"after {state.failure.reason}"
    return QueryState.STARTING, _NO_EPOCH_YET if isinstance(phase, Running) else ""


def describe_step(action: Action, seconds: float, waits_for: str) -> str | None:
    """The message while a step takes long; None while it does not.

    >>> describe_step(Action.CHECK_QUERY, 67.8, "lookup.py, line 3")
    'Planning the query for 60 s: lookup.py, line 3'
    """
    if action not in _STEPS or seconds < _SAID_EVERY_SECONDS:
        return None
    since = seconds // _SAID_EVERY_SECONDS * _SAID_EVERY_SECONDS
    return f"{_STEPS[action]} for {since:.0f} s" + (f": {waits_for}" if waits_for else "")


def _lacks_cores(observation: Observation, policy: RestartPolicy) -> bool:
    """Whether cores are missing that were asked for, unless a micro-batch runs with those that are
    there.
    """
    needed = observation.desired_cores if observation.requested_cores else 0
    if observation.has_query and not policy.mode.has_long_running_tasks:
        needed = min(needed, 1)
    return observation.has_session and observation.registered_cores < needed


def _cores(observation: Observation) -> str:
    return f"{observation.registered_cores} of {observation.desired_cores} cores"


def _running_message(run: Running, observation: Observation, policy: RestartPolicy) -> str:
    if observation.warning is not None:
        return observation.warning.message
    if observation.registered_cores < observation.desired_cores:
        return f"The query runs with {_cores(observation)}."
    if not run.committed:
        return _WORKS_WITHOUT_COMMIT.get(policy.mode, _WAITS_FOR_RECORDS)
    if stall_detection.is_slow(run, policy):
        return _SLOW_EPOCHS
    state, cores = observation.state_partitions, observation.desired_cores
    in_pods = observation.registered_executors > 0  # threads of one pod have fewer CPUs
    if state is not None and state < cores and in_pods and not policy.mode.has_long_running_tasks:
        return (
            f"The query's state has {state} partitions, so no more than "
            f"{state} of the {cores} cores work on it at a time."
        )
    return ""


def is_ready(state: State) -> bool:
    """Whether the query works and makes progress, or has completed.

    What shows first that it works: in continuous mode a commit, which it makes on time also without
    records. In the micro-batch modes a commit, or a look for records that finds none: without
    records they commit nothing. In real-time mode, whose batches may take minutes, a commit, or
    that all tasks run.
    """
    match state.phase:
        case Running(confirmed=confirmed, interruption=interruption):
            return confirmed and interruption is None
        case phase:
            return isinstance(phase, Completed)
