"""What the supervisor does about stalls and missing cores, which Spark does not report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import STORAGE_FAILURES, Failure
from penstock.driver.spark.query_activity import Activity
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.history import History
from penstock.driver.supervision.next_action import Action, NewFailure, NewInterruption
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.phases import Starting, State
from penstock.driver.supervision.reported_state import describe, is_ready
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.stall_detection import (
    CLOCK_SET_BACK,
    COMMITS_STUCK,
    EXECUTOR_LOST,
    NO_PROGRESS,
    STALLS,
    TASKS_MISSING,
)
from testkit.driver.observations import (
    CHECKED,
    CONTINUOUS,
    PASSING,
    POLICY,
    REAL_TIME,
    UP,
    action,
    actions,
    activity,
    after,
    committing,
    decided,
    remembering,
    run_of,
    running,
)

AWAY = Failure("BrokerUnreachable", "no answer")


@pytest.mark.proves(21, "failures.md#no-progress")
@pytest.mark.parametrize("policy", [CONTINUOUS, POLICY])
def test_a_query_without_progress_is_first_not_ready_and_then_restarted(
    policy: RestartPolicy,
) -> None:
    """Within three intervals and five, each with a few seconds: what flows meanwhile comes twice.

    A stuck batch writes its batch only, so a batch engine gets a minute.
    """
    state, observation = committing(3, policy)
    assert is_ready(state)
    late = replace(observation, now=101.0 + policy.late_after + 0.5)
    state, what, events = decided(state, late, policy)
    assert what in (Action.WAIT, Action.PROBE_CHECKPOINT)
    assert not is_ready(state)
    assert describe(state, late, policy)[0] is QueryState.RESTARTING
    assert [event.failure.reason for event in events if isinstance(event, NewInterruption)] == [
        NO_PROGRESS
    ]
    assert decided(state, late, policy).events == (), "it is told once"
    stalled = replace(observation, now=101.0 + policy.stall_after + 0.5)
    stopped, what, events = decided(state, stalled, policy)
    assert what is Action.STOP_QUERY
    assert stopped.failure is not None
    assert (stopped.failure.reason, stopped.history.stalls) == (NO_PROGRESS, 1)
    assert events == (NewFailure(stopped.failure),)
    # A commit in time makes it ready again.
    back = replace(late, epoch=4)
    state = after(state, back, policy)
    assert is_ready(state)
    assert describe(state, back, policy)[0] is QueryState.RUNNING


def test_the_bounds_follow_the_interval() -> None:
    slow = replace(CONTINUOUS, interval=10.0)
    assert (slow.late_after, slow.stall_after) == (35.0, 60.0)
    assert (CONTINUOUS.late_after, CONTINUOUS.stall_after) == (8.0, 15.0)
    # A real-time batch ends on time.
    assert (REAL_TIME.late_after, REAL_TIME.stall_after) == (315.0, 360.0)


def patience_of(state: State) -> float:
    """How long the running query may show no progress."""
    return stall_detection.stall_after(run_of(state), state.history, CONTINUOUS)


def test_the_first_records_get_the_patience_of_a_start() -> None:
    """An empty epoch shows nothing about the time that a record takes for the first time."""
    before, read = {"in": {0: 5}}, {"in": {0: 6}}
    state, observation = running(3, policy=CONTINUOUS)
    state = replace(state, phase=replace(run_of(state), offsets=before))
    empty = replace(observation, now=101.0, epoch=4, planned_epoch=4, offsets=before)
    state = after(state, empty, CONTINUOUS)
    assert patience_of(state) == CONTINUOUS.start_after
    state = after(
        state, replace(empty, now=102.0, epoch=5, planned_epoch=5, offsets=read), CONTINUOUS
    )
    assert patience_of(state) == CONTINUOUS.stall_after


def test_patience_doubles_with_each_fruitless_restart() -> None:
    """So a query whose first epoch takes longer than the patience commits at last."""
    needs, first, begun = 200.0, CHECKED, 0
    for _ in range(10):
        state, observation = running(policy=CONTINUOUS, first=first)
        begun += 1
        patience = patience_of(state)
        assert patience == 60.0 * 2 ** (begun - 1)
        if patience >= needs:
            break
        stalled = replace(observation, now=100.0 + patience + 1)
        first, what, _ = decided(state, stalled, CONTINUOUS)
        assert what is (Action.EXIT_PROCESS if begun == 3 else Action.STOP_QUERY)
    assert begun == 3
    # The next epochs take as long, and are given the time.
    committed = replace(observation, now=100.0 + needs, epoch=0)
    late = replace(committed, now=100.0 + 2 * needs)
    state, taken = actions(state, [committed, late], CONTINUOUS)
    assert taken == [Action.WAIT, Action.PROBE_CHECKPOINT]
    assert state.history.stalls == 0
    assert is_ready(state)


def test_slow_epochs_are_soon_forgotten() -> None:
    state, observation = running(policy=CONTINUOUS)
    epochs = [replace(observation, now=140.0 + n, epoch=n) for n in range(40)]
    state, _ = actions(state, epochs, CONTINUOUS)
    assert patience_of(state) == CONTINUOUS.stall_after


def test_patience_has_a_limit() -> None:
    """A query that is stuck for a cause that goes must be restarted some day.

    In continuous mode everything that it reads meanwhile comes twice.
    """
    state = remembering(running(policy=CONTINUOUS)[0], stalls=1000)
    assert patience_of(state) == 4 * CONTINUOUS.start_after
    assert POLICY.patience_factor(1000) == 32


@pytest.mark.parametrize("reason", sorted(STALLS))
def test_repeated_stalls_exit_the_process(reason: str) -> None:
    """Also those that an earlier process has counted."""
    for stalls, what in (
        (2, Action.EXIT_PROCESS),
        (3, Action.STOP_QUERY),
        (5, Action.EXIT_PROCESS),
    ):
        state = State(history=History(stalls=stalls))
        assert action(state, replace(UP, failure=Failure(reason, ""))) is what


def reason(state: State, observation: Observation) -> str:
    """The reason for which the query is stopped."""
    stopped, what, _ = decided(state, observation, CONTINUOUS)
    assert what is Action.STOP_QUERY
    assert stopped.failure is not None
    return stopped.failure.reason


def test_a_commit_that_has_failed_stops_the_query_at_once() -> None:
    """The offsets of one epoch are written before its commit, those of the next one after it."""
    state, observation = committing(4, CONTINUOUS)
    assert action(state, replace(observation, planned_epoch=5), CONTINUOUS) is Action.WAIT
    assert reason(state, replace(observation, planned_epoch=6)) == COMMITS_STUCK
    assert action(state, replace(observation, planned_epoch=6), POLICY) is Action.WAIT


def test_an_overdue_commit_is_a_reason_to_probe_the_checkpoint() -> None:
    """Seconds after it was due, and less often the longer that lasts."""
    state, observation = committing(4, CONTINUOUS)
    due, probed = observation.now + CONTINUOUS.interval, []
    for quarter in range(4 * 12):
        look = replace(observation, now=due + quarter / 4)
        state, what, _ = decided(state, look, CONTINUOUS)
        if what is Action.PROBE_CHECKPOINT:
            probed.append(look.now - due)
    assert probed == [3.25, 5.0, 7.75, 11.75]
    # A batch engine fails with the write, and while the source is away nothing is committed.
    state, observation = committing(4, CONTINUOUS)
    late = replace(observation, now=due + 5)
    assert action(state, replace(late, source_outage=AWAY), CONTINUOUS) is Action.WAIT
    assert action(*committing(4), POLICY) is Action.WAIT
    assert action(committing(4)[0], late) is Action.WAIT
    committed = replace(late, epoch=5, planned_epoch=5)
    assert action(state, committed, CONTINUOUS) is Action.WAIT


@pytest.mark.parametrize("reason", sorted(STORAGE_FAILURES))
@pytest.mark.parametrize("policy", [CONTINUOUS, POLICY])
def test_a_checkpoint_that_cannot_be_written_is_waited_for_with_the_executors(
    reason: str, policy: RestartPolicy
) -> None:
    """Nothing writes meanwhile, and the query is back seconds after its volume."""
    state, observation = committing(4, policy)
    failure = Failure(reason, "Read-only file system", permanent=True, recoverable=True)
    state, what, events = decided(state, replace(observation, now=105.0, failure=failure), policy)
    known = replace(failure, permanent=False)
    assert (what, events) == (Action.STOP_QUERY, (NewFailure(known),))
    assert state.retry_at == 105.0 + policy.volume_recheck
    assert describe(state, UP, policy) == (QueryState.RESTARTING, f"after {reason}")
    again, taken = actions(state, [replace(UP, now=107.0)] * 2, policy)
    assert taken[0] is Action.CHECK_CHECKPOINT
    again, what, events = decided(state, replace(UP, now=107.0, failure=failure), policy)
    assert (what, events) == (Action.STOP_QUERY, (NewFailure(known, repeated=True),))
    ready = [replace(UP, now=109.0)] * 3
    assert actions(again, ready, policy)[1] == [
        Action.CHECK_CHECKPOINT, Action.CHECK_QUERY, Action.START_QUERY,
    ]  # fmt: skip
    # After some minutes the executors are released, and it is looked at less often.
    later = replace(UP, now=106.0 + policy.volume_patience, failure=failure)
    state, what, _ = decided(again, later, policy)
    assert what is Action.STOP_SESSION
    assert state.retry_at == later.now + policy.recheck_interval


def test_partitions_without_a_task_are_named() -> None:
    state, observation = committing(4, CONTINUOUS)
    late = replace(observation, now=101.0 + CONTINUOUS.stall_after + 1)
    starving = replace(observation, now=102.0, activity=activity(active_tasks=3))
    assert action(state, starving, CONTINUOUS) is Action.WAIT
    assert reason(state, replace(late, activity=activity(active_tasks=4))) == NO_PROGRESS
    assert reason(state, replace(late, activity=activity(active_tasks=3))) == TASKS_MISSING


def test_tasks_that_wait_for_a_core_are_named_with_the_field() -> None:
    """Spark has planned more tasks than the spec says: a source whose partitions nobody counts."""
    state, observation = committing(4, CONTINUOUS)
    waits = activity(active_tasks=4, waiting_tasks=3)
    late = replace(observation, now=101.0 + CONTINUOUS.stall_after + 1, activity=waits)
    _, _, events = decided(state, late, CONTINUOUS)
    (found,) = [each.failure for each in events if isinstance(each, NewFailure)]
    assert found.reason == NO_PROGRESS
    assert "3 of 7 tasks wait for a core" in found.message
    assert "Set spec.source.custom.numPartitions" in found.message


def test_slow_epochs_are_reported_without_a_restart() -> None:
    state, observation = committing(4, CONTINUOUS)

    def described(seconds: float, first: int) -> tuple[QueryState, str]:
        """After eleven epochs that take this long each."""
        nonlocal state, observation
        for epoch in range(first, first + 11):
            now = observation.now + seconds
            observation = replace(observation, epoch=epoch, planned_epoch=epoch, now=now)
            state, what, _ = decided(state, observation, CONTINUOUS)
            assert what is Action.WAIT
            assert is_ready(state)
        return describe(state, observation, CONTINUOUS)

    behind = described(5.0, first=5)
    assert behind[0] is QueryState.RUNNING
    assert "checkpoint interval" in behind[1]
    assert described(1.0, first=16) == (QueryState.RUNNING, "")


# Batch engines.


def test_a_batch_that_works_is_not_stalled_however_long_it_takes() -> None:
    """Completed tasks and rows are its progress; an idle query has nothing to do."""
    state, observation = committing(3)
    works = [activity(work=(7, 0, 0, n, 0)) for n in range(1, 10)]
    looks = [activity(idle=True, idle_trigger=f"12:00:{n}0") for n in range(1, 10)]
    for shows in works + looks:
        now = observation.now + POLICY.late_after - 1
        observation = replace(observation, now=now, activity=shows)
        state, what, _ = decided(state, observation)
        assert what is Action.WAIT
        assert is_ready(state)


@pytest.mark.parametrize(
    "shows",
    [
        # It found nothing, looks again, and gets no answer: Spark goes on to call it idle.
        activity(idle=True, idle_trigger="12:00:00"),
        # One stuck task: its stage is active, and nothing of it changes.
        activity(work=(7, 0, 1, 500, 500)),
    ],
    ids=["it hangs in its source", "its task hangs"],
)
def test_a_query_that_shows_the_same_again_and_again_is_stalled(shows: Activity) -> None:
    state, observation = committing(3)
    same = replace(observation, now=102.0, activity=shows)
    patience = (0.0, 0.0, POLICY.late_after - 1, POLICY.late_after + 1, POLICY.stall_after)
    state, taken = actions(state, [replace(same, now=102.0 + waited) for waited in patience])
    assert taken == [Action.WAIT] * 5
    assert not is_ready(state)
    assert state.query_runs  # it is left running for now
    assert action(state, replace(same, now=103.0 + POLICY.stall_after)) is Action.STOP_QUERY


def test_a_real_time_batch_that_does_not_end_is_stalled() -> None:
    """It ends on time, with records or without. Its rows are not seen before."""
    state, observation = running(epoch=3, policy=REAL_TIME)
    batch = replace(observation, activity=activity(confirmed_running=True, work=(7, 0, 0, 0, 0)))
    state = after(state, batch, REAL_TIME)
    in_time = replace(batch, now=100.0 + REAL_TIME.interval)
    assert is_ready(after(state, in_time, REAL_TIME))
    overdue = replace(batch, now=100.0 + REAL_TIME.late_after + 1)
    assert not is_ready(after(state, overdue, REAL_TIME))
    stuck = replace(batch, now=100.0 + REAL_TIME.stall_after + 1)
    assert action(state, stuck, REAL_TIME) is Action.STOP_QUERY
    next_batch = replace(overdue, activity=activity(work=(8, 0, 0, 0, 0)))
    assert is_ready(after(state, next_batch, REAL_TIME))


def test_the_length_of_its_batches_gives_a_real_time_query_no_patience() -> None:
    """Each of them shows nothing before its end."""
    state, observation = running(epoch=3, policy=REAL_TIME)
    now = 100.0
    for epoch in (4, 5, 6):
        now += REAL_TIME.interval + 1
        observation = replace(observation, now=now, epoch=epoch, activity=activity(work=(epoch,)))
        state = after(state, observation, REAL_TIME)
    overdue = replace(observation, now=now + REAL_TIME.late_after + 1)
    assert not is_ready(after(state, overdue, REAL_TIME))
    stuck = replace(observation, now=now + REAL_TIME.stall_after + 1)
    assert action(state, stuck, REAL_TIME) is Action.STOP_QUERY


def test_a_real_time_query_whose_batches_end_late_gets_the_time_that_it_needs() -> None:
    state, observation = running(epoch=3, policy=REAL_TIME)
    late = replace(
        observation, now=100.0 + REAL_TIME.interval + 50, epoch=4, activity=activity(work=(4,))
    )
    again = replace(late, now=late.now + REAL_TIME.interval + 60)
    assert is_ready(actions(state, [late, again], REAL_TIME)[0])


# The source is away.


def test_a_source_outage_is_reported_and_waited_for() -> None:
    """Spark resumes by itself when the source is back, and reports nothing."""
    state, observation = committing(0, CONTINUOUS)
    gone = replace(observation, now=102.0, source_outage=AWAY)
    state, what, events = decided(state, gone, CONTINUOUS)
    assert (what, events) == (Action.WAIT, (NewInterruption(AWAY),))
    assert describe(state, gone, CONTINUOUS) == (
        QueryState.RESTARTING,
        "the query runs on, but: BrokerUnreachable",
    )
    assert not is_ready(state)
    # A restart would not help, so the patience starts when the source is back.
    back = replace(gone, now=301.0, source_outage=None, source_answered_at=301.0)
    state, taken = actions(state, [replace(gone, now=300.0), back], CONTINUOUS)
    assert taken == [Action.WAIT, Action.PROBE_CHECKPOINT]
    commits = replace(back, epoch=1)
    state = after(state, commits, CONTINUOUS)
    assert describe(state, commits, CONTINUOUS)[0] is QueryState.RUNNING
    assert is_ready(state)
    assert state.history.restarts == 0


def test_a_stall_during_a_long_source_outage_reports_the_outage() -> None:
    state, observation = committing(0, CONTINUOUS)
    away = replace(observation, now=500.0, source_outage=AWAY)
    state, what, events = decided(state, away, CONTINUOUS)
    assert (what, state.failure, events) == (Action.STOP_QUERY, AWAY, (NewFailure(AWAY),))


def test_a_stall_waits_for_the_answer_of_the_source() -> None:
    """A broker that was killed just now is found within twenty seconds, and nothing comes twice."""
    state, observation = committing(0, CONTINUOUS)
    late = replace(observation, now=101.0 + CONTINUOUS.stall_after + 1, source_answered_at=101.5)
    assert action(state, late, CONTINUOUS) is Action.PROBE_CHECKPOINT
    answered = replace(late, source_answered_at=late.now - 2)
    assert action(state, answered, CONTINUOUS) is Action.STOP_QUERY
    silent = replace(late, now=late.now + 21)
    assert action(state, silent, CONTINUOUS) is Action.STOP_QUERY


# Cores.


def test_a_query_that_lacks_cores_is_not_stalled() -> None:
    state, observation = committing(3, CONTINUOUS)
    state = replace(state, phase=replace(run_of(state), cores=2))
    few = replace(observation, now=150.0, registered_cores=2)
    # The patience starts when the cores are there.
    there = replace(few, registered_cores=4, now=151.0)
    waits = [Action.PROBE_CHECKPOINT, Action.WAIT]
    assert actions(state, [few, there], CONTINUOUS)[1] == waits
    state, taken = actions(state, [few, replace(few, now=402.0)], CONTINUOUS)
    assert taken[1] is Action.STOP_SESSION  # a new session requests new executors
    assert state.retry_at is not None


def test_a_query_that_waits_for_more_cores_than_it_runs_on_may_stall() -> None:
    """The executors of new partitions are awaited while the old ones are read."""
    state, observation = committing(3, CONTINUOUS)
    growing = replace(
        observation, now=102.0, partitions=6, partitions_added=True, desired_cores=6,
        requested_cores=6,
    )  # fmt: skip
    state, what, _ = decided(state, growing, CONTINUOUS)
    assert what is Action.WAIT
    assert describe(state, growing, CONTINUOUS) == (QueryState.WAITING_FOR_CORES, "4 of 6 cores")
    assert is_ready(state)
    stuck = replace(growing, now=101.0 + CONTINUOUS.stall_after + 1)
    assert action(state, stuck, CONTINUOUS) is Action.STOP_QUERY


def test_a_failed_task_with_missing_cores_is_a_lost_executor() -> None:
    state, observation = running(epoch=3)
    ended = replace(observation, failure=PASSING, registered_cores=3, has_query=False)
    assert after(state, ended).failure == replace(PASSING, reason=EXECUTOR_LOST)


def test_a_lost_executor_stops_a_continuous_query_at_once() -> None:
    """Spark itself would let the other partitions run, and replay all of their records later."""
    state, observation = running(epoch=3, policy=CONTINUOUS)
    state, what, _ = decided(state, replace(observation, registered_cores=2), CONTINUOUS)
    assert what is Action.STOP_QUERY
    assert state.failure is not None
    assert (state.failure.reason, state.failure.permanent) == (EXECUTOR_LOST, False)
    # It restarts only when all cores are back.
    few = replace(UP, now=200.0, registered_cores=2)
    _, taken = actions(state, [few, few, few, replace(few, registered_cores=4)], CONTINUOUS)
    assert taken == [
        Action.CHECK_CHECKPOINT, Action.CHECK_QUERY, Action.WAIT, Action.START_QUERY,
    ]  # fmt: skip


def test_a_lost_executor_does_not_stop_a_batch_query() -> None:
    """Spark runs its tasks again, on the cores that are left. A continuous query has no retry."""
    state, observation = committing(3)
    fewer = replace(
        observation, now=102.0, registered_cores=2, activity=activity(work=(1, 0, 0, 5, 5))
    )
    state, what, _ = decided(state, fewer)
    assert what is Action.WAIT
    assert describe(state, fewer, POLICY) == (
        QueryState.RUNNING,
        "The query runs with 2 of 4 cores.",
    )
    assert is_ready(state)
    none = replace(fewer, registered_cores=0)
    assert describe(state, none, POLICY)[0] is QueryState.WAITING_FOR_CORES


def test_the_loss_of_a_surplus_executor_stops_nothing() -> None:
    """minInstances asks for more cores than there are partitions."""
    state, observation = committing(3, CONTINUOUS)
    surplus = replace(observation, desired_cores=6, requested_cores=6, registered_cores=6)
    state = after(state, surplus, CONTINUOUS)
    assert action(state, replace(surplus, registered_cores=4), CONTINUOUS) is Action.WAIT
    assert action(state, replace(surplus, registered_cores=3), CONTINUOUS) is Action.STOP_QUERY


@pytest.mark.parametrize("policy", [CONTINUOUS, POLICY, REAL_TIME])
def test_a_clock_that_was_set_back_restarts_the_session(policy: RestartPolicy) -> None:
    """Spark waits until the clock shows the former time; a query that waits looks idle."""
    state, observation = committing(3, policy)
    back = replace(observation, now=101.25, wall_clock=-3600.0, activity=activity(idle=True))
    stopped, what, _ = decided(state, back, policy)
    assert what is Action.STOP_SESSION
    assert stopped.failure is not None
    assert (stopped.failure.reason, stopped.history.stalls) == (CLOCK_SET_BACK, 0)
    assert "3600 s" in stopped.failure.message
    # The next query starts on the clock as it is now.
    start = replace(UP, now=110.0, epoch=3, wall_clock=-3600.0)
    ready = Starting(checkpoint_checked_at=110.0, query_checked=True)
    runs = replace(start, now=110.25, has_query=True)
    _, taken = actions(replace(stopped, phase=ready), [start, runs], policy)
    assert taken == [Action.START_QUERY, Action.WAIT]


@pytest.mark.parametrize("seconds", [3600.0, -0.5, -4.5])
def test_a_clock_that_is_set_ahead_or_back_a_little_restarts_nothing(seconds: float) -> None:
    state, observation = committing(3, CONTINUOUS)
    for step in range(1, 4):  # small steps are not added up
        seen = replace(observation, now=101.0 + step / 4, wall_clock=step * seconds)
        state, what, _ = decided(state, seen, CONTINUOUS)
        assert what is Action.WAIT
