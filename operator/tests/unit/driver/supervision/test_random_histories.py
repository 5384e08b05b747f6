"""Invariants of the supervisor's decisions in random histories."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contract.driver_report import QueryState
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.state import Observation, State
from penstock.driver.supervision.supervisor import Action, decide, describe, is_ready
from testkit.driver.observations import MAYBE_POISON, PASSING, PERMANENT, RECOVERABLE

FAILURES = st.sampled_from([None, None, None, PASSING, PERMANENT, RECOVERABLE, MAYBE_POISON])


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    has_session = draw(st.booleans())
    wanted = draw(st.integers(1, 4))
    partitions = draw(st.sampled_from([None, wanted]))
    return Observation(
        now=draw(st.floats(0, 500)),
        failure=draw(FAILURES),
        partitions=partitions,
        desired_cores=wanted if partitions else 0,
        requested_cores=draw(st.integers(0, 4)) if has_session else 0,
        registered_cores=draw(st.integers(0, 4)) if has_session else 0,
        has_session=has_session,
        has_query=has_session and draw(st.booleans()),
        epoch=draw(st.none() | st.integers(0, 9)),
        planned_epoch=draw(st.none() | st.integers(0, 13)),
        active_tasks=draw(st.none() | st.integers(0, 4)),
    )


POLICIES = st.builds(
    RestartPolicy,
    interval=st.sampled_from([0.0, 1.0, 600.0]),
    continuous=st.booleans(),
    max_attempts=st.none() | st.integers(1, 5),
)


@settings(max_examples=300)
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
        if observation.failure is not None and observation.failure.permanent:
            assert what is Action.STOP_SESSION
        if what is Action.START_QUERY:
            assert observation.registered_cores >= observation.desired_cores > 0
            assert not observation.has_query
            assert not before.failed_permanently
            assert state.restarts - before.restarts in (0, 1)
        else:
            assert state.restarts == before.restarts
        if before.failed_permanently and observation.failure is None:
            assert what in (Action.WAIT, Action.DISCOVER)
        if state.retry_at is not None:
            assert state.retry_at <= now + policy.backoff_cap
        if policy.max_attempts is not None and state.attempts >= policy.max_attempts:
            assert state.failed_permanently
        if is_ready(state, observation, policy):
            assert state.committed
            assert describe(state, observation, policy)[0] is not QueryState.FAILED
        describe(state, observation, policy)
