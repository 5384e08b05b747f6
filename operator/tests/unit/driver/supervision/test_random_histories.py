"""Invariants of the supervisor's decisions in random histories."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.modes import Mode
from penstock.contract.driver_report import QueryState
from penstock.driver.failures import QUERY_NOT_STOPPED, Failure
from penstock.driver.spark.query_activity import Activity
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.next_action import Action, decide
from penstock.driver.supervision.observation import Observation, State, nothing_observed
from penstock.driver.supervision.reported_state import describe, is_ready
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.observations import MAYBE_POISON, PASSING, PERMANENT, RECOVERABLE

AWAY = Failure("BrokerUnreachable", "no answer")
ASKED_FOR = replace(RECOVERABLE, reason="DataLoss", asked_for=True)
NOT_STOPPED = Failure(QUERY_NOT_STOPPED, "")
FAILURES = st.sampled_from(
    [*[None] * 5, PASSING, PERMANENT, RECOVERABLE, MAYBE_POISON, ASKED_FOR, NOT_STOPPED]
)


ACTIVITIES = st.builds(
    Activity,
    idle=st.booleans(),
    looked_at=st.sampled_from([None, "12:00:00", "12:00:10"]),
    work=st.none() | st.tuples(st.integers(0, 1)),
    confirmed_running=st.booleans(),
    active_tasks=st.none() | st.integers(0, 4),
)


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    has_session = draw(st.booleans())
    wanted = draw(st.integers(1, 4))
    partitions = draw(st.sampled_from([None, wanted]))
    return replace(
        nothing_observed(0.0),
        now=draw(st.floats(0, 500)),
        failure=draw(FAILURES),
        partitions=partitions,
        desired_cores=wanted if partitions else 0,
        requested_cores=draw(st.integers(0, 4)) if has_session else 0,
        registered_cores=draw(st.integers(0, 4)) if has_session else 0,
        has_session=has_session,
        has_query=has_session and draw(st.booleans()),
        epoch=draw(st.none() | st.integers(0, 9)),
        offsets=draw(st.none() | st.integers(0, 2).map(lambda end: {"in": {0: end}})),
        unread=draw(st.frozensets(st.tuples(st.just("in"), st.just(0), st.integers(0, 2)))),
        planned_epoch=draw(st.none() | st.integers(0, 13)),
        activity=draw(ACTIVITIES),
        source_outage=draw(st.none() | st.just(AWAY)),
        source_answered_at=draw(st.none() | st.floats(0, 500)),
    )


POLICIES = st.builds(
    RestartPolicy,
    interval=st.sampled_from([0.0, 1.0, 600.0]),
    mode=st.sampled_from(Mode),
    max_attempts=st.none() | st.integers(1, 5),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(observations(), st.floats(0, 0.999)), max_size=30), POLICIES)
def test_invariants_over_random_histories(
    history: list[tuple[Observation, float]], policy: RestartPolicy
) -> None:
    state, now = State(), 0.0
    for seen, jitter in history:
        now += seen.now
        observation = replace(seen, now=now)
        before, (state, what) = state, decide(state, observation, policy, jitter)
        if what is Action.STOP_SESSION:
            assert state.failed_permanently or state.retry_at is not None
        _check_proof(before, state, observation, policy)
        if what in (Action.CHECK_CHECKPOINT, Action.START_QUERY):
            assert not observation.has_query
        if what is Action.START_QUERY:
            assert before.checkpoint_checked_at is not None
            assert state.checkpoint_checked_at is None
        if observation.failure is not None and observation.failure.permanent:
            assert what is Action.STOP_SESSION
        if observation.failure is NOT_STOPPED and not state.failed_permanently:
            assert what is Action.EXIT_PROCESS
        if what is Action.START_QUERY:
            short = observation.registered_cores < observation.desired_cores
            assert not short or not policy.mode.has_long_running_tasks
            assert observation.registered_cores > 0
            assert not observation.has_query
            assert not before.failed_permanently
            assert state.restarts - before.restarts in (0, 1)
        else:
            assert state.restarts == before.restarts
        if before.failed_permanently and observation.failure is None:
            steps = {Action.WAIT, Action.DISCOVER, Action.CHECK_CHECKPOINT}
            assert what in steps or (what is Action.STOP_SESSION and observation.has_query)
        if state.retry_at is not None:
            assert state.retry_at <= now + policy.recheck_cap
        if is_ready(state, observation):
            assert state.committed
            silent = now - state.last_progress_at
            assert silent <= stall_detection.late_after(state, policy)
            assert stall_detection.unread(state, policy) is None
            assert describe(state, observation, policy)[0] is not QueryState.FAILED
        describe(state, observation, policy)


def _check_proof(
    before: State, after: State, observation: Observation, policy: RestartPolicy
) -> None:
    """A proof is never lost, and a proved spec ends only where the spec itself asks for it."""
    assert after.proved or not before.proved
    assert after.slowest >= 0
    if after.proved and after.failed_permanently:
        assert before.failed_permanently or (after.failure is not None and after.failure.asked_for)
    failure = observation.failure
    if failure is not None and after.proved and not failure.asked_for and not policy.max_attempts:
        assert (
            after.retry_at is not None
            or observation.failure is NOT_STOPPED
            or (before.failed_permanently)
        )
    assert stall_detection.late_after(after, policy) <= stall_detection.stall_after(after, policy)
