"""What the supervisor does about stalls and missing cores, which Spark does not report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import Failure
from penstock.driver.supervision.stall_detection import (
    COMMITS_STUCK,
    EXECUTOR_LOST,
    NO_PROGRESS,
    STALLS,
    TASKS_MISSING,
)
from penstock.driver.supervision.state import Observation, State
from penstock.driver.supervision.supervisor import Action, decide, describe, is_ready
from testkit.driver.observations import PASSING, POLICY, UP, action, after, running


def test_a_query_that_lacks_cores_is_not_stalled() -> None:
    state, observation = running(epoch=3)
    late = replace(
        observation, now=100.0 + POLICY.commit_timeout + 1, desired_cores=6, requested_cores=6
    )
    assert action(state, late) is Action.WAIT
    # The commit timeout starts when the cores are there.
    state = after(state, late)
    assert action(state, replace(late, registered_cores=6, now=late.now + 1)) is Action.WAIT


def test_a_query_that_lacks_cores_for_long_restarts_the_session() -> None:
    """A new session requests new executors, whatever the reason was."""
    state, observation = running(epoch=3)
    state = after(state, replace(observation, epoch=4))
    short = replace(observation, epoch=4, desired_cores=6, requested_cores=6)
    assert is_ready(after(state, short), short, POLICY)
    late = replace(short, now=100.0 + POLICY.commit_timeout + 1)
    assert not is_ready(after(state, late), late, POLICY)
    state, what = decide(state, replace(short, now=401.0), POLICY, 0.5)
    assert what is Action.STOP_SESSION
    assert not state.failed_permanently
    assert state.retry_at is not None


def test_a_query_that_does_not_commit_is_restarted() -> None:
    state, observation = running(epoch=3)
    stalls = replace(observation, now=100.0 + POLICY.commit_timeout + 1)
    state, what = decide(state, stalls, POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == NO_PROGRESS
    assert state.retry_at is not None


@pytest.mark.parametrize("reason", sorted(STALLS))
def test_repeated_stalls_exit_the_process(reason: str) -> None:
    state = replace(State(), stalls=POLICY.max_stalls - 1)
    assert action(state, replace(UP, failure=Failure(reason, ""))) is Action.EXIT_PROCESS


def continuous(epoch: int) -> tuple[State, Observation]:
    """A continuous query that has committed once since its start."""
    state, observation = running(epoch=epoch)
    observation = replace(
        observation, epoch=epoch + 1, planned_epoch=epoch + 1, active_tasks=4, now=101.0
    )
    return decided(state, observation)[0], observation


def decided(state: State, observation: Observation) -> tuple[State, Action]:
    return decide(state, observation, replace(POLICY, continuous=True), 0.5)


def test_offsets_without_commits_restart_the_query() -> None:
    """After a shorter timeout than without offsets, and only with several uncommitted epochs."""
    state, observation = continuous(3)
    late = replace(observation, now=101.0 + POLICY.stuck_commits_timeout + 1)
    assert decided(state, replace(late, planned_epoch=6))[1] is Action.WAIT
    state, what = decided(state, replace(late, planned_epoch=7))
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == COMMITS_STUCK
    # Asynchronous tracking writes offsets and commits independently of the batches.
    state, observation = running(epoch=3)
    assert action(state, replace(observation, now=late.now, planned_epoch=9)) is Action.WAIT


def test_a_partition_without_a_task_restarts_the_query() -> None:
    state, observation = continuous(3)
    starving = replace(observation, active_tasks=3, now=102.0)
    state, what = decided(state, starving)
    assert what is Action.WAIT
    late = replace(starving, now=101.0 + POLICY.missing_tasks_timeout + 1)
    assert decided(state, replace(late, active_tasks=4))[1] is Action.WAIT
    state, what = decided(state, late)
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == TASKS_MISSING
    assert "3 tasks run for 4 partitions" in state.failure.message


def test_slow_epochs_are_reported_without_a_restart() -> None:
    state, observation = continuous(3)
    policy = replace(POLICY, continuous=True)
    for n in range(1, 12):
        observation = replace(observation, epoch=4 + n, planned_epoch=4 + n, now=101.0 + 5 * n)
        state, what = decided(state, observation)
        assert what is Action.WAIT
    behind = describe(state, observation, policy)
    assert behind[0] is QueryState.RUNNING
    assert "checkpoint interval" in behind[1]
    for n in range(1, 12):
        observation = replace(observation, epoch=15 + n, planned_epoch=15 + n, now=156.0 + n)
        state, what = decided(state, observation)
    in_time = describe(state, observation, policy)
    assert in_time == (QueryState.RUNNING, "")


def test_a_failed_task_with_missing_cores_is_a_lost_executor() -> None:
    state, observation = running(epoch=3)
    lost = after(
        state, replace(observation, failure=PASSING, registered_cores=3, has_query=False)
    ).failure
    assert lost is not None
    assert lost.reason == EXECUTOR_LOST


def test_a_lost_executor_stops_the_query_at_once() -> None:
    """Spark itself would let the other partitions run, and replay all of their records later."""
    state, observation = running(epoch=3)
    state, what = decide(state, replace(observation, registered_cores=2), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == EXECUTOR_LOST
    assert not state.failure.permanent
    # It restarts only when all cores are back.
    later = replace(UP, now=200.0, registered_cores=2)
    state = after(state, later)
    assert action(state, later) is Action.WAIT
    assert action(state, replace(later, registered_cores=4)) is Action.START_QUERY


def test_a_lost_executor_of_a_grown_query_stops_it_too() -> None:
    state, observation = running(epoch=3)
    grown = replace(observation, desired_cores=6, requested_cores=6, registered_cores=6)
    state = after(state, grown)
    assert action(state, replace(grown, registered_cores=4)) is Action.STOP_QUERY


def test_a_query_without_records_to_commit_is_not_stalled() -> None:
    """A micro-batch query without new records, and one in a long batch."""
    state, observation = running(epoch=3)
    late = replace(observation, now=100.0 + 10 * POLICY.commit_timeout)
    assert action(state, replace(late, idle=True)) is Action.WAIT
    assert action(state, replace(late, batch_running=True)) is Action.WAIT
    assert action(state, late) is Action.STOP_QUERY
