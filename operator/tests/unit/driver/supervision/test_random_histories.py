"""What holds of the supervisor's decisions in any history."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contract.driver_report import QueryState
from penstock.driver.supervision.restart_policy import Policy
from penstock.driver.supervision.state import Sight, State
from penstock.driver.supervision.supervisor import Action, decide, describe, is_ready
from testkit.driver.observations import CURABLE, PASSING, PERMANENT, SUSPECT

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
