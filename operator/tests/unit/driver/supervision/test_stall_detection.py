"""Stuck or short of cores, and not idle: what the supervisor does about what Spark does not say."""

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


def test_no_commit_short_of_cores_is_not_stuck() -> None:
    state, observation = running(epoch=3)
    late = replace(
        observation, now=100.0 + POLICY.commit_timeout + 1, desired_cores=6, requested_cores=6
    )
    assert action(state, late) is Action.WAIT
    # The clock of its patience begins when the cores are there.
    state = after(state, late)
    assert action(state, replace(late, cores=6, now=late.now + 1)) is Action.WAIT


def test_a_query_short_of_cores_is_not_ready_for_long_and_starts_anew_in_the_end() -> None:
    """Whatever keeps the executors away: a new session asks for new ones."""
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


def test_a_query_that_commits_nothing_is_started_again() -> None:
    state, observation = running(epoch=3)
    stalls = replace(observation, now=100.0 + POLICY.commit_timeout + 1)
    state, what = decide(state, stalls, POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == NO_PROGRESS
    assert state.retry_at is not None


@pytest.mark.parametrize("reason", sorted(STALLS))
def test_a_process_that_stays_stuck_is_given_up(reason: str) -> None:
    state = replace(State(), stalls=POLICY.max_stalls - 1)
    assert action(state, replace(UP, failure=Failure(reason, ""))) is Action.EXIT_PROCESS


def continuous(epoch: int) -> tuple[State, Observation]:
    """A continuous query that has committed once since it was started."""
    state, observation = running(epoch=epoch)
    observation = replace(
        observation, epoch=epoch + 1, planned_epoch=epoch + 1, active_tasks=4, now=101.0
    )
    return watched(state, observation)[0], observation


def watched(state: State, observation: Observation) -> tuple[State, Action]:
    return decide(state, observation, replace(POLICY, continuous=True), 0.5)


def test_offsets_that_move_while_commits_do_not() -> None:
    """Sooner than mere silence is stuck, and only where it is no ordinary delay."""
    state, observation = continuous(3)
    late = replace(observation, now=101.0 + POLICY.stuck_commits_timeout + 1)
    assert watched(state, replace(late, planned_epoch=6))[1] is Action.WAIT
    state, what = watched(state, replace(late, planned_epoch=7))
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == COMMITS_STUCK
    # Asynchronous tracking plans and commits beside the batches.
    state, observation = running(epoch=3)
    assert action(state, replace(observation, now=late.now, planned_epoch=9)) is Action.WAIT


def test_a_partition_without_a_task() -> None:
    state, observation = continuous(3)
    starving = replace(observation, active_tasks=3, now=102.0)
    state, what = watched(state, starving)
    assert what is Action.WAIT
    late = replace(starving, now=101.0 + POLICY.missing_tasks_timeout + 1)
    assert watched(state, replace(late, active_tasks=4))[1] is Action.WAIT
    state, what = watched(state, late)
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == TASKS_MISSING
    assert "3 tasks run for 4 partitions" in state.failure.message


def test_epochs_that_fall_behind_are_said_and_not_restarted() -> None:
    state, observation = continuous(3)
    policy = replace(POLICY, continuous=True)
    for n in range(1, 12):
        observation = replace(observation, epoch=4 + n, planned_epoch=4 + n, now=101.0 + 5 * n)
        state, what = watched(state, observation)
        assert what is Action.WAIT
    behind = describe(state, observation, policy)
    assert behind[0] is QueryState.RUNNING
    assert "checkpoint interval" in behind[1]
    for n in range(1, 12):
        observation = replace(observation, epoch=15 + n, planned_epoch=15 + n, now=156.0 + n)
        state, what = watched(state, observation)
    in_time = describe(state, observation, policy)
    assert in_time == (QueryState.RUNNING, "")


def test_a_failed_task_short_of_cores_is_a_lost_executor() -> None:
    state, observation = running(epoch=3)
    lost = after(state, replace(observation, failure=PASSING, cores=3, has_query=False)).failure
    assert lost is not None
    assert lost.reason == EXECUTOR_LOST


def test_a_lost_executor_stops_the_query_at_once() -> None:
    """Spark itself would let the other partitions run on, and all of that would come twice."""
    state, observation = running(epoch=3)
    state, what = decide(state, replace(observation, cores=2), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert state.failure.reason == EXECUTOR_LOST
    assert not state.failure.permanent
    # It is started again when, and only when, all the cores are back.
    later = replace(UP, now=200.0, cores=2)
    state = after(state, later)
    assert action(state, later) is Action.WAIT
    assert action(state, replace(later, cores=4)) is Action.START_QUERY


def test_cores_that_a_grown_query_has_lost_again_stop_it_too() -> None:
    state, observation = running(epoch=3)
    grown = replace(observation, desired_cores=6, requested_cores=6, cores=6)
    state = after(state, grown)
    assert action(state, replace(grown, cores=4)) is Action.STOP_QUERY


def test_nothing_to_commit_is_not_being_stuck() -> None:
    """A micro-batch query without new records, and one in the middle of a long batch."""
    state, observation = running(epoch=3)
    late = replace(observation, now=100.0 + 10 * POLICY.commit_timeout)
    assert action(state, replace(late, idle=True)) is Action.WAIT
    assert action(state, replace(late, batch_running=True)) is Action.WAIT
    assert action(state, late) is Action.STOP_QUERY
