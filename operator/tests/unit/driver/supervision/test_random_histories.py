"""Invariants of the supervisor's decisions in random histories."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import log

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.api.modes import Mode
from penstock.contract.driver_report import QueryState
from penstock.driver.failures import (
    CHECKPOINT_NOT_ACCESSIBLE,
    QUERY_NOT_STOPPED,
    Failure,
)
from penstock.driver.record_position import Position
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
    first_state,
)
from penstock.driver.supervision.observation import Observation, nothing_observed
from penstock.driver.supervision.phases import BackingOff, Failed, Running, Starting, State
from penstock.driver.supervision.reported_state import describe, is_ready
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.observations import (
    CONTINUOUS,
    MAYBE_POISON,
    PASSING,
    PERMANENT,
    POLICY,
    REAL_TIME,
    RECOVERABLE,
    UP,
    activity,
    committing,
)

AT = {"in": {0: 7}}
AWAY = Failure("BrokerUnreachable", "no answer")
ASKED_FOR = replace(RECOVERABLE, reason="DataLoss", asked_for=True)
NOT_STOPPED = Failure(QUERY_NOT_STOPPED, "")
VOLUME = Failure(CHECKPOINT_NOT_ACCESSIBLE, "read-only", permanent=True, recoverable=True)
OVER_RECORDS = [replace(MAYBE_POISON, record=Position("in", 0, offset)) for offset in (0, 1)]
FAILURES = st.sampled_from(
    [
        *[None] * 5, PASSING, PERMANENT, RECOVERABLE, MAYBE_POISON, ASKED_FOR, NOT_STOPPED, VOLUME,
        *OVER_RECORDS,
    ]
)  # fmt: skip


ACTIVITIES = st.builds(
    Activity,
    idle=st.booleans(),
    idle_trigger=st.sampled_from([None, "12:00:00", "12:00:10"]),
    work=st.none() | st.tuples(st.integers(0, 1)),
    confirmed_running=st.booleans(),
    active_tasks=st.none() | st.integers(0, 4),
)

POSITIONS = st.builds(Position, st.just("in"), st.just(0), st.integers(0, 2))


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
        slots=partitions or 0,
        desired_cores=wanted if partitions else 0,
        requested_cores=draw(st.integers(0, 4)) if has_session else 0,
        registered_cores=draw(st.integers(0, 4)) if has_session else 0,
        has_session=has_session,
        has_query=has_session and draw(st.booleans()),
        epoch=draw(st.none() | st.integers(0, 9)),
        offsets=draw(st.none() | st.integers(0, 2).map(lambda end: {"in": {0: end}})),
        positions_behind=draw(st.frozensets(POSITIONS)),
        planned_epoch=draw(st.none() | st.integers(0, 13)),
        activity=draw(ACTIVITIES),
        warning=draw(st.none() | st.just(Failure("TooFewExecutorsAllowed", "2 of 3"))),
        dead_letters=draw(st.integers(0, 2)),
        source_outage=draw(st.none() | st.just(AWAY)),
        source_answered_at=draw(st.none() | st.floats(0, 500)),
    )


POLICIES = st.builds(
    RestartPolicy,
    interval=st.sampled_from([0.0, 1.0, 600.0]),
    mode=st.sampled_from(Mode),
    max_attempts=st.none() | st.integers(1, 5),
    dead_letters_per_minute=st.none() | st.integers(1, 2),
)


@pytest.mark.proves(23)
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
        if decision.action is not Action.COPY_DEAD_LETTER:
            _check_proof(state, decision.state, observation, policy)
        state = decision.state
        if state.retry_at is not None:
            assert state.retry_at <= now + max(policy.recheck_cap, policy.uncommitted_cap)
        query_state, _ = describe(state, observation, policy)
        if is_ready(state):
            run = state.phase
            assert isinstance(run, Running)
            assert run.confirmed
            silent = now - run.progress_at
            assert silent <= stall_detection.late_after(state.history, policy)
            assert state.history.unread_partitions.interruption(run.committed_at, policy) is None
            assert query_state is not QueryState.FAILED


def _check_action(
    before: State, decision: Decision, observation: Observation, policy: RestartPolicy
) -> None:
    state, what, _ = decision
    if what is Action.STOP_SESSION:
        too_many = observation.requested_cores > observation.desired_cores
        assert isinstance(state.phase, BackingOff | Failed) or too_many
    if what in (Action.CHECK_CHECKPOINT, Action.START_QUERY):
        assert not observation.has_query
    if observation.failure is not None and observation.failure.permanent:
        waits = observation.failure is VOLUME and what is Action.STOP_QUERY
        assert what is Action.STOP_SESSION or (waits and isinstance(state.phase, BackingOff))
    if what is Action.COPY_DEAD_LETTER:
        failure = observation.failure or before.uncopied  # an earlier copy has failed
        assert failure is not None
        assert failure.record in before.history.suspects
        if observation.failure is not None:
            assert observation.dead_letters < (policy.dead_letters_per_minute or 0)
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


@pytest.mark.proves(2, "failures.md#nothing-can-be-committed")
@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 300),
            st.sampled_from([PASSING, Failure("NoProgress", ""), Failure("CommitsStuck", "")]),
            st.booleans(),
        ),
        min_size=2,
        max_size=60,
    ),
    st.floats(0, 0.999),
    st.sampled_from([POLICY, CONTINUOUS, REAL_TIME]),
)
def test_runs_without_a_commit_are_few(
    runs: list[tuple[float, Failure, bool]], jitter: float, policy: RestartPolicy
) -> None:
    """Each writes again what has come since the last commit: the bound on copies of a record.

    Whatever ends them, how long they take, and whether the process ends between two of them. In
    continuous mode the first epoch of each is empty, and committed.
    """
    now, epoch = 0.0, 3
    state, _ = committing(epoch, policy)
    state = replace(state, phase=Starting())
    ends: list[float] = []
    for takes, failure, crashes in runs:
        state, now = _started(state, now, epoch, jitter, policy)
        epoch += int(policy is CONTINUOUS)
        works = activity(work=(7, 0, 0, 1, 0))
        seen = replace(UP, has_query=True, offsets=AT, epoch=epoch, activity=works)
        state, _, _ = decide(state, replace(seen, now=now), policy, jitter)
        now += takes
        state, what, _ = decide(state, replace(seen, now=now, failure=failure), policy, jitter)
        ends.append(now)
        if crashes or what is Action.EXIT_PROCESS:
            state = first_state(state.history.for_next_process(policy), policy, now)
    cap = policy.uncommitted_cap
    lasted, first = ends[-1], ends[0]
    grown = max(0.0, log(min(lasted, 2 * cap) / first, 1.5))
    assert len(ends) <= 2 + grown + max(0.0, lasted - 2 * cap) / cap


# Behind what is committed.
AHEAD = [replace(MAYBE_POISON, record=Position("in", 0, offset)) for offset in (7, 8)]
NOT_COPIED = replace(AHEAD[0], reason="DeadLetterNotWritten", permanent=True)
COPIES = [None, NOT_COPIED, replace(NOT_COPIED, permanent=False), PASSING, RECOVERABLE, VOLUME]
ENDS = [PASSING, Failure("NoProgress", ""), RECOVERABLE, MAYBE_POISON, *AHEAD]


@pytest.mark.proves(2, "failures.md#nothing-can-be-committed")
@example([(1.0, AHEAD[0])] * 80, [NOT_COPIED], 0.5, CONTINUOUS, 1)
@example([(1.0, AHEAD[0])] * 80, [PASSING], 0.5, CONTINUOUS, 1)
@given(
    st.lists(st.tuples(st.floats(0.1, 300), st.sampled_from(ENDS)), min_size=2, max_size=80),
    st.lists(st.sampled_from(COPIES), min_size=1, max_size=9),
    st.floats(0, 0.999),
    st.sampled_from([POLICY, CONTINUOUS, REAL_TIME]),
    st.integers(1, 3),
)
def test_runs_without_a_commit_become_rare_whatever_fails(
    runs: list[tuple[float, Failure]],
    copies: list[Failure | None],
    jitter: float,
    policy: RestartPolicy,
    letters: int,
) -> None:
    """Also over records, of which some become dead letters, and whatever a copy fails with: a
    record costs two runs at most, and while its copy is not made there is none.
    """
    policy = replace(policy, dead_letters_per_minute=letters)
    copied, made = itertools.cycle(copies), 0

    def decided(state: State, seen: Observation) -> Decision:
        nonlocal made
        decision = decide(state, seen, policy, jitter)
        while decision.action is Action.COPY_DEAD_LETTER:
            failure = next(copied)
            made += failure is None
            seen = replace(seen, failure=failure, has_query=False)
            decision = decide(decision.state, seen, policy, jitter)
        return decision

    now, epoch = 0.0, 3
    state, _ = committing(epoch, policy)
    state, ends = replace(state, phase=Starting()), list[float]()
    for takes, failure in runs:
        for _ in range(200):
            now = max(now, state.retry_at or now)
            seen = replace(UP, now=now, epoch=epoch, offsets=AT)
            state, what, _ = decided(state, seen)
            if what is Action.START_QUERY:
                break
        else:  # no copy is ever made
            break
        epoch += int(policy.mode is Mode.CONTINUOUS)
        works = activity(work=(7, 0, 0, 1, 0))
        seen = replace(UP, has_query=True, offsets=AT, epoch=epoch, activity=works)
        state = decided(state, replace(seen, now=now)).state
        now += takes
        seen = replace(seen, now=now, failure=failure, dead_letters=made)
        state = decided(state, seen).state
        ends.append(now)
    assert made <= letters
    # Those over unknown records, and those over each one that becomes a dead letter.
    at_once = policy.max_poison_failures * (1 + letters)
    # Those after a pause, and those after a look whether the cause has gone.
    lasted, cap = ends[-1], policy.uncommitted_cap
    pauses = log(min(max(lasted, ends[0]), 2 * cap) / ends[0], 1.5) + max(0.0, lasted / cap - 2)
    looks = log(policy.recheck_cap / policy.recheck_interval, 2) + lasted / policy.recheck_cap
    assert len(ends) <= at_once + 2 + pauses + 2 + looks


def _started(
    state: State, now: float, epoch: int, jitter: float, policy: RestartPolicy
) -> tuple[State, float]:
    """The state after the start of the query, and the time of it: no step takes any."""
    for _ in range(10):
        now = max(now, state.retry_at or now)
        seen = replace(UP, now=now, epoch=epoch, offsets=AT)
        state, what, _ = decide(state, seen, policy, jitter)
        if what is Action.START_QUERY:
            return state, now
    raise AssertionError(state)
