"""What the supervisor does about partitions that a query leaves out although its epochs commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import Failure
from penstock.driver.record_position import Position
from penstock.driver.supervision.next_action import Action
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.phases import State
from penstock.driver.supervision.reported_state import describe, is_ready
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.unread_partitions import PARTITIONS_NOT_READ
from testkit.driver.observations import (
    CHECKED,
    CONTINUOUS,
    POLICY,
    REAL_TIME,
    committing,
    decided,
    run_of,
    running,
)

HELD = Position("in", 3, 50)


def epochs(
    state: State,
    observation: Observation,
    seconds: float,
    policy: RestartPolicy = CONTINUOUS,
    *,
    held: bool = True,
) -> tuple[State, Observation, Action]:
    """The next epochs, each as long as the interval: partition 0 is read, and 3 unless `held`.

    Ends at the first action other than WAIT.
    """
    assert observation.epoch is not None
    what = Action.WAIT
    end = observation.now + seconds
    while what is Action.WAIT and observation.now < end:
        assert observation.epoch is not None
        epoch = observation.epoch + 1
        observation = replace(
            observation,
            now=observation.now + policy.interval,
            epoch=epoch,
            planned_epoch=epoch,
            offsets={"in": {0: 10 * epoch, 3: 50 if held else 51 + epoch}},
            positions_behind=frozenset({HELD}),
        )
        state, what, _ = decided(state, observation, policy)
    return state, observation, what


@pytest.mark.parametrize("policy", [CONTINUOUS, REAL_TIME])
def test_a_partition_that_is_not_read_is_reported_and_then_spark_gets_new_executors(
    policy: RestartPolicy,
) -> None:
    state, observation = committing(3, policy)
    start = observation.now + policy.interval  # when its record is first seen
    state, observation, what = epochs(state, observation, policy.unread_after, policy)
    assert what is Action.WAIT
    assert is_ready(state)
    state, observation, what = epochs(state, observation, 2 * policy.interval, policy)
    if what is Action.WAIT:
        assert not is_ready(state)
        assert describe(state, observation, policy)[0] is QueryState.RESTARTING
        assert run_of(state).interruption == PARTITIONS_NOT_READ
        state, observation, what = epochs(state, observation, 1000.0, policy)
    assert what is Action.STOP_SESSION
    waited = observation.now - start
    assert policy.unread_restart_after < waited <= policy.unread_restart_after + 2 * policy.interval
    assert state.failure is not None
    assert state.failure.reason == PARTITIONS_NOT_READ
    assert "partition 3 of in from offset 50 on" in state.failure.message


def test_a_partition_that_is_read_again_makes_the_stream_ready() -> None:
    state, observation = committing(3, CONTINUOUS)
    state, observation, _ = epochs(state, observation, 40.0)
    assert not is_ready(state)
    state, observation, what = epochs(state, observation, 1.0, held=False)
    assert what is Action.WAIT
    assert is_ready(state)
    assert epochs(state, observation, 300.0, held=False)[2] is Action.WAIT


def test_a_record_that_is_read_in_time_is_nothing() -> None:
    """The sampler's answer is some seconds old, so the record may have been committed since."""
    state, observation = committing(3, CONTINUOUS)
    state, observation, what = epochs(state, observation, 300.0, held=False)
    assert what is Action.WAIT
    assert is_ready(state)
    assert state.history.unread_partitions.since == {}


def test_a_micro_batch_states_what_it_reads() -> None:
    state, observation = committing(3, POLICY)
    state, observation, what = epochs(state, observation, 300.0, POLICY)
    assert what is Action.WAIT
    assert is_ready(state)


def test_patience_doubles_until_the_partition_is_read() -> None:
    """Nothing helps while a network policy keeps every executor from the broker."""
    state, waits = CHECKED, []
    for _ in range(8):
        state, observation = committing(3, CONTINUOUS, state)
        start = observation.now
        state, observation, what = epochs(state, observation, 10_000.0)
        assert what is Action.STOP_SESSION
        waits.append(observation.now - start)
    base = CONTINUOUS.unread_restart_after
    expected = [base * factor for factor in (1, 2, 4, 8, 16, 32, 32, 32)]
    assert [wait - 2 for wait in waits] == expected
    state, observation = committing(3, CONTINUOUS, state)
    state, observation, _ = epochs(state, observation, 1.0, held=False)
    assert state.history.unread_partitions.restarts == 0


def test_a_new_run_gets_its_time_to_read_them() -> None:
    state, observation = committing(3, CONTINUOUS)
    state, observation, what = epochs(state, observation, 10_000.0)
    assert what is Action.STOP_SESSION
    state, started = running(3, observation.now + 100.0, CONTINUOUS, state)
    state, _, what = epochs(state, started, CONTINUOUS.unread_after)
    assert what is Action.WAIT
    assert is_ready(state)


def test_a_suspended_query_is_not_blamed() -> None:
    """Time has passed for all of its partitions, and its next commit has the record."""
    state, observation = committing(3, CONTINUOUS)
    state, observation, _ = epochs(state, observation, 2.0)
    thawed = replace(observation, now=observation.now + 14.0)
    state, what, _ = decided(state, thawed, CONTINUOUS)
    later = replace(thawed, now=thawed.now + 100.0)
    assert later.epoch is not None
    moved = replace(later, epoch=later.epoch + 1, offsets={"in": {0: 900, 3: 51}})
    state, what, _ = decided(state, moved, CONTINUOUS)
    assert what is Action.WAIT
    assert is_ready(state)


def test_while_the_brokers_are_away_nothing_is_held_against_the_query() -> None:
    away = Failure("BrokerUnreachable", "no answer")
    state, observation = committing(3, CONTINUOUS)
    gone = replace(observation, source_outage=away)
    state, gone, what = epochs(state, gone, 200.0)
    assert what is Action.WAIT
    state, observation, what = epochs(state, replace(gone, source_outage=None), 25.0)
    assert what is Action.WAIT
    assert is_ready(state)
