"""Invariants of the supervisor's decisions in random histories."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.modes import Mode
from penstock.contract.driver_report import QueryState
from penstock.driver.failures import QUERY_NOT_STOPPED, Failure, StreamWarning
from penstock.driver.spark.query_activity import Activity
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.next_action import (
    Action,
    Decision,
    NewFailure,
    NewInterruption,
    NewWarning,
    QueryRestarted,
    decide,
)
from penstock.driver.supervision.observation import Observation, nothing_observed
from penstock.driver.supervision.phases import BackingOff, Failed, Running, Starting, State
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
    idle_trigger=st.sampled_from([None, "12:00:00", "12:00:10"]),
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
        warning=draw(st.none() | st.just(StreamWarning("TooFewExecutorsAllowed", "2 of 3"))),
        source_outage=draw(st.none() | st.just(AWAY)),
        source_answered_at=draw(st.none() | st.floats(0, 500)),
    )


POLICIES = st.builds(
    RestartPolicy,
    interval=st.sampled_from([0.0, 1.0, 600.0]),
    mode=st.sampled_from(Mode),
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
        decision = decide(state, observation, policy, jitter)
        _check_action(state, decision, observation, policy)
        _check_events(state, decision, observation)
        _check_proof(state, decision.state, observation, policy)
        state = decision.state
        if state.retry_at is not None:
            assert state.retry_at <= now + policy.recheck_cap
        query_state, _ = describe(state, observation, policy)
        if is_ready(state):
            run = state.phase
            assert isinstance(run, Running)
            assert run.confirmed
            silent = now - run.progress_at
            assert silent <= stall_detection.late_after(state.history, policy)
            assert state.history.unread.interruption(run.committed_at, policy) is None
            assert query_state is not QueryState.FAILED


def _check_action(
    before: State, decision: Decision, observation: Observation, policy: RestartPolicy
) -> None:
    state, what, _ = decision
    if what is Action.STOP_SESSION:
        assert isinstance(state.phase, BackingOff | Failed)
    if what in (Action.CHECK_CHECKPOINT, Action.START_QUERY):
        assert not observation.has_query
    if observation.failure is not None and observation.failure.permanent:
        assert what is Action.STOP_SESSION
    if observation.failure is NOT_STOPPED and not isinstance(state.phase, Failed):
        assert what is Action.EXIT_PROCESS
    if what is Action.START_QUERY:
        assert isinstance(before.phase, Starting)
        assert before.phase.checkpoint_checked_at is not None
        assert isinstance(state.phase, Running)
        short = observation.registered_cores < observation.desired_cores
        assert not short or not policy.mode.has_long_running_tasks
        assert observation.registered_cores > 0
        assert state.history.restarts - before.history.restarts in (0, 1)
    else:
        assert state.history.restarts == before.history.restarts
    if isinstance(before.phase, Failed) and observation.failure is None:
        steps = {Action.WAIT, Action.DISCOVER, Action.CHECK_CHECKPOINT}
        assert what in steps or (what is Action.STOP_SESSION and observation.has_query)


def _check_events(before: State, decision: Decision, observation: Observation) -> None:
    """Whatever counts is told, and nothing else is."""
    state, _, events = decision
    kinds = {type(event) for event in events}
    restarted = state.history.restarts > before.history.restarts
    assert (QueryRestarted in kinds) == restarted
    final = isinstance(before.phase, Failed) and before.phase.retry_at is None
    if observation.failure is not None:
        assert (NewFailure in kinds) != final
    if NewFailure in kinds:
        assert isinstance(state.phase, BackingOff | Failed | Starting)
        assert len(events) == 1
    if kinds & {NewInterruption, NewWarning}:
        assert isinstance(before.phase, Running)
        assert state.history.attempts <= before.history.attempts


def _check_proof(
    before: State, after: State, observation: Observation, policy: RestartPolicy
) -> None:
    """A proof is never lost, and a proved spec ends only where the spec itself asks for it."""
    proved, failed = after.history.proved, isinstance(after.phase, Failed)
    was_failed = isinstance(before.phase, Failed)
    assert proved or not before.history.proved
    assert after.history.slowest_progress >= 0
    if proved and failed:
        assert was_failed or (after.failure is not None and after.failure.asked_for)
    failure = observation.failure
    if failure is not None and proved and not failure.asked_for and not policy.max_attempts:
        assert after.retry_at is not None or failure is NOT_STOPPED or was_failed
    if isinstance(after.phase, Running):
        late = stall_detection.late_after(after.history, policy)
        assert late <= stall_detection.stall_after(after.phase, after.history, policy)
