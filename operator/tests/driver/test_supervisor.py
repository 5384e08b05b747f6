"""The supervisor's decisions: a table of situations, and invariants over random histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.driver.attempts import Attempts
from penstock.driver.failures import Trouble
from penstock.driver.situation import Policy, Sight, State
from penstock.driver.supervisor import Action, decide, describe, first_state, is_ready
from penstock.driver.watchdog import (
    COMMITS_STUCK,
    EXECUTOR_LOST,
    NO_PROGRESS,
    STUCK,
    TASKS_MISSING,
)
from penstock.stream.status import QueryState
from tests.driver.streams import MICRO_BATCH, stream

POLICY = Policy(interval=1.0)
PASSING = Trouble("TaskFailed", "an executor was lost")
PERMANENT = Trouble("UnsupportedOperation", "Aggregate", permanent=True)
CURABLE = Trouble("TopicMissing", "in", permanent=True, curable=True)
SUSPECT = Trouble("CastInvalidInput", "a record", suspect=True)
UP = Sight(
    now=100.0, partitions=4, cores_wanted=4, cores_requested=4, cores=4, session=True
)  # fmt: skip


def action(state: State, sight: Sight) -> Action:
    return decide(state, sight, POLICY, 0.5)[1]


def after(state: State, sight: Sight) -> State:
    return decide(state, sight, POLICY, 0.5)[0]


def running(epoch: int | None = None, now: float = 100.0) -> tuple[State, Sight]:
    """A query that has just been started, at this epoch."""
    state = after(State(checked=True), replace(UP, now=now, epoch=epoch))
    return state, replace(UP, now=now, query=True, epoch=epoch)


def test_the_way_to_a_query() -> None:
    nothing = Sight(now=100.0)
    assert action(State(), nothing) is Action.DISCOVER
    assert action(State(), replace(nothing, partitions=4)) is Action.START_SESSION
    assert action(State(), replace(UP, cores=0)) is Action.CHECK_QUERY
    assert action(State(checked=True), replace(UP, cores=3)) is Action.WAIT
    assert action(State(checked=True), UP) is Action.START_QUERY


def test_a_query_is_never_started_short_of_cores() -> None:
    """One core for two partitions would starve one of them without a word."""
    state, sight = State(checked=True), replace(UP, cores=1)
    assert action(state, sight) is Action.WAIT
    assert describe(state, sight, POLICY) == (QueryState.WAITING_FOR_CORES, "1 of 4 cores")


def test_more_partitions_ask_for_executors_first() -> None:
    state, sight = running(epoch=3)
    assert action(state, replace(sight, cores_wanted=6)) is Action.REQUEST_EXECUTORS
    short = replace(sight, cores_wanted=6, cores_requested=6)
    assert action(state, short) is Action.WAIT
    assert describe(state, short, POLICY) == (QueryState.WAITING_FOR_CORES, "4 of 6 cores")


def test_no_commit_short_of_cores_is_not_stuck() -> None:
    state, sight = running(epoch=3)
    late = replace(sight, now=100.0 + POLICY.patience + 1, cores_wanted=6, cores_requested=6)
    assert action(state, late) is Action.WAIT
    # The clock of its patience begins when the cores are there.
    state = after(state, late)
    assert action(state, replace(late, cores=6, now=late.now + 1)) is Action.WAIT


def test_a_query_short_of_cores_is_not_ready_for_long_and_starts_anew_in_the_end() -> None:
    """Whatever keeps the executors away: a new session asks for new ones."""
    state, sight = running(epoch=3)
    state = after(state, replace(sight, epoch=4))
    short = replace(sight, epoch=4, cores_wanted=6, cores_requested=6)
    assert is_ready(after(state, short), short, POLICY)
    late = replace(short, now=100.0 + POLICY.patience + 1)
    assert not is_ready(after(state, late), late, POLICY)
    state, what = decide(state, replace(short, now=401.0), POLICY, 0.5)
    assert what is Action.LET_GO
    assert not state.halted
    assert state.retry_at is not None


def test_a_query_that_commits_nothing_is_started_again() -> None:
    state, sight = running(epoch=3)
    stuck = replace(sight, now=100.0 + POLICY.patience + 1)
    state, what = decide(state, stuck, POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.trouble is not None
    assert state.trouble.reason == NO_PROGRESS
    assert state.retry_at is not None


@pytest.mark.parametrize("reason", sorted(STUCK))
def test_a_process_that_stays_stuck_is_given_up(reason: str) -> None:
    state = replace(State(), stuck=POLICY.stuck_at_most - 1)
    assert action(state, replace(UP, trouble=Trouble(reason, ""))) is Action.GIVE_UP


def continuous(epoch: int) -> tuple[State, Sight]:
    """A continuous query that has committed once since it was started."""
    state, sight = running(epoch=epoch)
    sight = replace(sight, epoch=epoch + 1, planned=epoch + 1, tasks=4, now=101.0)
    return watched(state, sight)[0], sight


def watched(state: State, sight: Sight) -> tuple[State, Action]:
    return decide(state, sight, replace(POLICY, continuous=True), 0.5)


def test_offsets_that_move_while_commits_do_not() -> None:
    """Sooner than mere silence is stuck, and only where it is no ordinary delay."""
    state, sight = continuous(3)
    late = replace(sight, now=101.0 + POLICY.patience_with_commits + 1)
    assert watched(state, replace(late, planned=6))[1] is Action.WAIT
    state, what = watched(state, replace(late, planned=7))
    assert what is Action.STOP_QUERY
    assert state.trouble is not None
    assert state.trouble.reason == COMMITS_STUCK
    # Asynchronous tracking plans and commits beside the batches.
    state, sight = running(epoch=3)
    assert action(state, replace(sight, now=late.now, planned=9)) is Action.WAIT


def test_a_partition_without_a_task() -> None:
    state, sight = continuous(3)
    starving = replace(sight, tasks=3, now=102.0)
    state, what = watched(state, starving)
    assert what is Action.WAIT
    late = replace(starving, now=101.0 + POLICY.patience_for_tasks + 1)
    assert watched(state, replace(late, tasks=4))[1] is Action.WAIT
    state, what = watched(state, late)
    assert what is Action.STOP_QUERY
    assert state.trouble is not None
    assert state.trouble.reason == TASKS_MISSING
    assert "3 tasks run for 4 partitions" in state.trouble.message


def test_epochs_that_fall_behind_are_said_and_not_restarted() -> None:
    state, sight = continuous(3)
    policy = replace(POLICY, continuous=True)
    for n in range(1, 12):
        sight = replace(sight, epoch=4 + n, planned=4 + n, now=101.0 + 5 * n)
        state, what = watched(state, sight)
        assert what is Action.WAIT
    behind = describe(state, sight, policy)
    assert behind[0] is QueryState.RUNNING
    assert "checkpoint interval" in behind[1]
    for n in range(1, 12):
        sight = replace(sight, epoch=15 + n, planned=15 + n, now=156.0 + n)
        state, what = watched(state, sight)
    in_time = describe(state, sight, policy)
    assert in_time == (QueryState.RUNNING, "")


def test_an_end_for_people_who_want_one() -> None:
    policy = replace(POLICY, max_attempts=3)
    state, sight, actions = State(), replace(UP, trouble=PASSING), []
    for _ in range(3):
        state, what = decide(state, sight, policy, 0.5)
        actions.append(what)
    assert actions == [Action.STOP_QUERY, Action.STOP_QUERY, Action.LET_GO]
    assert state.halted
    assert state.trouble is not None
    assert "restart.maxAttempts is 3" in state.trouble.message
    assert decide(state, replace(UP, now=1e6), policy, 0.5)[1] is Action.WAIT


def test_an_end_across_processes(tmp_path: Path) -> None:
    """A JVM that dies takes the supervisor's memory with it."""
    policy = replace(POLICY, max_attempts=3)
    kept = Attempts(tmp_path, "hash")
    assert first_state(kept.read(), policy) == State()
    kept.write(0)  # this process ends without a word,
    state = first_state(kept.read(), policy)
    assert (state.attempts, state.halted) == (1, False)
    kept.write(2)  # the next one after two failures,
    state = first_state(kept.read(), policy)
    assert state.halted
    assert describe(state, Sight(now=0.0), policy)[0] is QueryState.FAILED
    assert action(state, Sight(now=0.0)) is Action.WAIT
    # A new spec begins anew, and so does a start after a stop in good order.
    assert Attempts(tmp_path, "another").read() == 0
    kept.forget()
    assert kept.read() == 0
    (tmp_path / "penstock" / "attempts.json").write_text("{")
    assert kept.read() == 0


def test_the_policy_is_the_specs() -> None:
    spec = stream(restart={"maxAttempts": 5, "stableAfter": "5m"}).spec
    policy = Policy.of(spec)
    assert (policy.max_attempts, policy.stable_after, policy.interval) == (5, 300.0, 1.0)
    assert policy.continuous
    assert not Policy.of(stream(trigger=MICRO_BATCH).spec).continuous


def test_ready_means_committed_by_this_query() -> None:
    state, sight = running(epoch=3)
    assert not is_ready(state, sight, POLICY)
    assert describe(state, sight, POLICY)[0] is QueryState.STARTING
    committed = replace(sight, epoch=4, now=101.0)
    state = after(state, committed)
    assert is_ready(state, committed, POLICY)
    assert describe(state, committed, POLICY)[0] is QueryState.RUNNING
    assert not is_ready(state, replace(committed, now=101.0 + POLICY.patience + 1), POLICY)


def test_a_failed_query_is_not_ready_until_it_commits_again() -> None:
    state, sight = running(epoch=3)
    state = after(state, replace(sight, epoch=4))
    state, what = decide(state, replace(UP, trouble=PASSING, epoch=4), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.retry_at == 100.5
    assert describe(state, UP, POLICY) == (QueryState.RESTARTING, "after TaskFailed")
    assert action(state, replace(UP, now=100.4)) is Action.WAIT
    state, what = decide(state, replace(UP, now=100.6, epoch=4), POLICY, 0.5)
    assert what is Action.CHECK_QUERY
    state, what = decide(state, replace(UP, now=100.7, epoch=4), POLICY, 0.5)
    assert what is Action.START_QUERY
    assert state.restarts == 1
    again = replace(UP, now=100.8, epoch=4, query=True)
    assert not is_ready(after(state, again), again, POLICY)
    again = replace(again, epoch=5)
    assert is_ready(after(state, again), again, POLICY)


def test_a_failed_task_short_of_cores_is_a_lost_executor() -> None:
    state, sight = running(epoch=3)
    lost = after(state, replace(sight, trouble=PASSING, cores=3, query=False)).trouble
    assert lost is not None
    assert lost.reason == EXECUTOR_LOST


def test_a_lost_executor_stops_the_query_at_once() -> None:
    """Spark itself would let the other partitions run on, and all of that would come twice."""
    state, sight = running(epoch=3)
    state, what = decide(state, replace(sight, cores=2), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.trouble is not None
    assert state.trouble.reason == EXECUTOR_LOST
    assert not state.trouble.permanent
    # It is started again when, and only when, all the cores are back.
    later = replace(UP, now=200.0, cores=2)
    state = after(state, later)
    assert action(state, later) is Action.WAIT
    assert action(state, replace(later, cores=4)) is Action.START_QUERY


def test_cores_that_a_grown_query_has_lost_again_stop_it_too() -> None:
    state, sight = running(epoch=3)
    grown = replace(sight, cores_wanted=6, cores_requested=6, cores=6)
    state = after(state, grown)
    assert action(state, replace(grown, cores=4)) is Action.STOP_QUERY


def test_a_permanent_failure_holds_nothing_and_tries_nothing() -> None:
    state, what = decide(State(), replace(UP, trouble=PERMANENT), POLICY, 0.5)
    assert what is Action.LET_GO
    assert describe(state, Sight(now=100.0), POLICY) == (QueryState.FAILED, "Aggregate")
    assert action(state, Sight(now=1e9)) is Action.WAIT
    assert state.restarts == 0


def test_a_cause_that_vanishes_is_looked_for_at_a_slow_pace() -> None:
    state, _ = decide(State(), Sight(now=100.0, trouble=CURABLE), POLICY, 0.5)
    assert action(state, Sight(now=101.0)) is Action.WAIT
    later = Sight(now=101.0 + POLICY.look_again)
    state, what = decide(state, later, POLICY, 0.5)
    assert what is Action.DISCOVER
    state = after(state, replace(later, partitions=4))
    assert not state.halted
    assert action(state, replace(later, partitions=4)) is Action.START_SESSION


def test_a_record_that_fails_every_restart_is_permanent_in_the_end() -> None:
    state, sight, actions = State(), replace(UP, trouble=SUSPECT), []
    for _ in range(POLICY.suspect_at_most):
        state, what = decide(state, sight, POLICY, 0.5)
        actions.append(what)
    assert actions == [Action.STOP_QUERY] * (POLICY.suspect_at_most - 1) + [Action.LET_GO]
    assert state.trouble is not None
    assert state.trouble.permanent


def test_a_commit_clears_a_suspicion() -> None:
    state, sight = running(epoch=3)
    state = after(replace(state, suspicions=9), replace(sight, epoch=4))
    assert state.suspicions == 0


def test_back_off_grows_to_a_cap_and_begins_anew_after_health() -> None:
    assert [POLICY.delay(n, 0.999999) < POLICY.backoff_cap for n in (1, 50, 5000)] == [True] * 3
    assert POLICY.delay(3, 0.5) == 2.0
    state, sight = running(epoch=3)
    state = replace(state, attempts=7)
    state = after(state, replace(sight, epoch=4))
    assert state.attempts == 7
    healthy = replace(sight, epoch=60, now=sight.now + POLICY.stable_after + 1)
    assert after(state, healthy).attempts == 0


def test_nothing_to_commit_is_not_being_stuck() -> None:
    """A micro-batch query without new records, and one in the middle of a long batch."""
    state, sight = running(epoch=3)
    late = replace(sight, now=100.0 + 10 * POLICY.patience)
    assert action(state, replace(late, idle=True)) is Action.WAIT
    assert action(state, replace(late, busy=True)) is Action.WAIT
    assert action(state, late) is Action.STOP_QUERY


def test_a_query_that_has_looked_and_found_nothing_is_ready() -> None:
    state, sight = running(epoch=3)
    busy = replace(sight, busy=True)
    assert not is_ready(after(state, busy), busy, POLICY)
    idle = replace(sight, idle=True, flowing=True)
    state = after(state, idle)
    assert is_ready(state, idle, POLICY)
    assert describe(state, idle, POLICY)[0] is QueryState.RUNNING


def test_what_was_to_end_is_completed_and_lets_go_once() -> None:
    state, sight = running(epoch=3)
    ended = replace(sight, query=False, completed=True)
    state, what = decide(state, ended, POLICY, 0.5)
    assert what is Action.LET_GO
    gone = Sight(now=500.0, completed=True)
    assert action(state, gone) is Action.WAIT
    assert is_ready(state, gone, POLICY)
    assert describe(state, gone, POLICY) == (QueryState.COMPLETED, "")


TROUBLES = st.sampled_from([None, None, None, PASSING, PERMANENT, CURABLE, SUSPECT])


@st.composite
def sights(draw: st.DrawFn) -> Sight:
    session = draw(st.booleans())
    wanted = draw(st.integers(1, 4))
    partitions = draw(st.sampled_from([None, wanted]))
    return Sight(
        now=draw(st.floats(0, 500)),
        trouble=draw(TROUBLES),
        partitions=partitions,
        cores_wanted=wanted if partitions else 0,
        cores_requested=draw(st.integers(0, 4)) if session else 0,
        cores=draw(st.integers(0, 4)) if session else 0,
        session=session,
        query=session and draw(st.booleans()),
        epoch=draw(st.none() | st.integers(0, 9)),
        planned=draw(st.none() | st.integers(0, 13)),
        tasks=draw(st.none() | st.integers(0, 4)),
    )


POLICIES = st.builds(
    Policy,
    interval=st.sampled_from([0.0, 1.0, 600.0]),
    continuous=st.booleans(),
    max_attempts=st.none() | st.integers(1, 5),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(sights(), st.floats(0, 0.999)), max_size=30), POLICIES)
def test_invariants_over_random_histories(
    history: list[tuple[Sight, float]], policy: Policy
) -> None:
    state, now = State(), 0.0
    for seen, jitter in history:
        now += seen.now
        sight = replace(seen, now=now)
        before, (state, what) = state, decide(state, sight, policy, jitter)
        if what is Action.LET_GO:
            assert state.halted or state.retry_at is not None
        if sight.trouble is not None and sight.trouble.permanent:
            assert what is Action.LET_GO
        if what is Action.START_QUERY:
            assert sight.cores >= sight.cores_wanted > 0
            assert not sight.query
            assert not before.halted
            assert state.restarts - before.restarts in (0, 1)
        else:
            assert state.restarts == before.restarts
        if before.halted and sight.trouble is None:
            assert what in (Action.WAIT, Action.DISCOVER)
        if state.retry_at is not None:
            assert state.retry_at <= now + policy.backoff_cap
        if policy.max_attempts is not None and state.attempts >= policy.max_attempts:
            assert state.halted
        if is_ready(state, sight, policy):
            assert state.committed
            assert describe(state, sight, policy)[0] is not QueryState.FAILED
        describe(state, sight, policy)


def test_a_source_that_is_away_is_said_and_waited_for() -> None:
    """Spark goes on by itself when it is back, and says nothing of it meanwhile."""
    away = Trouble("BrokerUnreachable", "no answer")
    state, sight = running()
    state = after(state, replace(sight, epoch=0))
    gone = replace(sight, now=101.0, epoch=0, away=away)
    state, what = decide(state, gone, POLICY, 0.5)
    assert what is Action.WAIT
    assert state.trouble is away
    assert describe(state, gone, POLICY) == (
        QueryState.RESTARTING,
        "waiting for the source: BrokerUnreachable",
    )
    assert not is_ready(state, gone, POLICY)
    back = replace(gone, now=102.0, away=None)
    state = after(state, back)
    assert describe(state, back, POLICY)[0] is QueryState.RUNNING
    assert is_ready(state, back, POLICY)
    assert state.restarts == 0


def test_a_query_that_hangs_because_its_source_is_away_says_so() -> None:
    state, sight = running()
    away = Trouble("BrokerUnreachable", "no answer")
    late = replace(sight, now=sight.now + POLICY.patience + 1, away=away)
    state, what = decide(state, late, POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.trouble == away


def test_a_query_that_its_source_has_outgrown_is_started_anew_once_there_are_cores() -> None:
    """It is no failure, and not counted as one."""
    state, sight = running()
    grown = replace(sight, partitions=5, cores_wanted=5, outgrown=True)
    assert action(state, grown) is Action.REQUEST_EXECUTORS
    asked = replace(grown, cores_requested=5)
    assert action(state, asked) is Action.WAIT
    state, what = decide(state, replace(asked, cores=5), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    stopped = replace(asked, cores=5, query=False, outgrown=False)
    state, what = decide(state, stopped, POLICY, 0.5)
    assert what is Action.CHECK_QUERY
    state, what = decide(state, stopped, POLICY, 0.5)
    assert what is Action.START_QUERY
    assert (state.restarts, state.attempts, state.retry_at) == (0, 0, None)
