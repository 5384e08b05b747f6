"""The supervisor's decisions, case by case."""

from __future__ import annotations

import ast
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.api.modes import Mode
from penstock.contract.driver_report import QueryState
from penstock.driver.failures import QUERY_NOT_STOPPED, Failure
from penstock.driver.spark.query_activity import Activity
from penstock.driver.supervision import next_action
from penstock.driver.supervision.history import DurableState, DurableStateFile
from penstock.driver.supervision.next_action import (
    Action,
    decide,
    durable_state,
    first_state,
)
from penstock.driver.supervision.observation import Observation, State, nothing_observed
from penstock.driver.supervision.reported_state import describe, is_ready
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.observations import (
    CHECKED,
    CONTINUOUS,
    MAYBE_POISON,
    PASSING,
    PERMANENT,
    POLICY,
    REAL_TIME,
    RECOVERABLE,
    UP,
    action,
    activity,
    after,
    committing,
    running,
)
from testkit.streams.streams import stream


def test_the_steps_to_a_running_query() -> None:
    nothing = nothing_observed(100.0)
    assert action(State(), nothing) is Action.DISCOVER
    found = replace(nothing, partitions=4)
    assert action(State(), found) is Action.CHECK_CHECKPOINT
    # Only then executors: a checkpoint that is refused must not cost any.
    state = after(State(), found)
    assert action(state, found) is Action.START_SESSION
    assert action(state, replace(UP, registered_cores=0)) is Action.CHECK_QUERY
    assert action(CHECKED, replace(UP, registered_cores=3)) is Action.WAIT
    assert action(CHECKED, UP) is Action.START_QUERY


def test_the_checkpoint_is_checked_before_each_start() -> None:
    """Also when the cores came late: records may have been deleted meanwhile."""
    state, _ = running()
    assert action(state, replace(UP, now=101.0)) is Action.CHECK_CHECKPOINT
    state = after(CHECKED, replace(UP, now=400.0))
    assert action(state, replace(UP, now=400.0)) is Action.CHECK_CHECKPOINT


@pytest.mark.parametrize("policy", [CONTINUOUS, REAL_TIME])
def test_a_query_is_never_started_with_missing_cores(policy: RestartPolicy) -> None:
    """With one core for two partitions Spark would silently not read one of them."""
    state, observation = CHECKED, replace(UP, registered_cores=1)
    for now in (100.0, 10_000.0):
        state, what = decide(state, replace(observation, now=now), policy, 0.5)
        assert what is not Action.START_QUERY
    assert describe(CHECKED, observation, policy) == (QueryState.WAITING_FOR_CORES, "1 of 4 cores")


def test_a_micro_batch_starts_with_fewer_cores_after_a_minute() -> None:
    """It reads all partitions with those that there are, and a lost node may not come back."""
    state, few = CHECKED, replace(UP, registered_cores=3)
    state, what = decide(state, few, POLICY, 0.5)
    assert what is Action.WAIT
    assert describe(state, few, POLICY) == (QueryState.WAITING_FOR_CORES, "3 of 4 cores")
    later = replace(few, now=few.now + POLICY.cores_patience + 1)
    assert action(state, replace(later, registered_cores=0)) is Action.WAIT
    state, what = decide(state, later, POLICY, 0.5)
    assert what is Action.START_QUERY
    runs = replace(later, has_query=True, epoch=0)
    state = after(state, runs)
    assert describe(state, runs, POLICY) == (
        QueryState.RUNNING,
        "The query runs with 3 of 4 cores.",
    )
    for _ in range(2):  # it checks the checkpoint, and then starts Spark
        state = after(state, replace(later, has_session=False))
    assert state.session_since is None
    assert action(after(state, later), later) is Action.WAIT, "it waits again"


def test_more_partitions_request_executors_first() -> None:
    state, observation = running(epoch=3)
    assert action(state, replace(observation, desired_cores=6)) is Action.REQUEST_EXECUTORS
    short = replace(observation, desired_cores=6, requested_cores=6)
    assert action(state, short) is Action.WAIT


def test_max_attempts_makes_a_failure_permanent() -> None:
    policy = replace(POLICY, max_attempts=3)
    state, observation, actions = State(), replace(UP, failure=PASSING), []
    for _ in range(3):
        state, what = decide(state, observation, policy, 0.5)
        actions.append(what)
    assert actions == [Action.STOP_QUERY, Action.STOP_QUERY, Action.STOP_SESSION]
    assert state.failed_permanently
    assert state.failure is not None
    assert "restart.maxAttempts is 3" in state.failure.message
    assert decide(state, replace(UP, now=1e6), policy, 0.5)[1] is Action.WAIT


def test_max_attempts_counts_across_processes(tmp_path: Path) -> None:
    """The supervisor's memory ends with its process."""
    policy = replace(POLICY, max_attempts=3)
    file = DurableStateFile(tmp_path, "hash")
    assert first_state(file.read(), policy) == State()
    file.write(durable_state(State(), policy))  # this process crashes
    state = first_state(file.read(), policy)
    assert (state.attempts, state.failed_permanently) == (1, False)
    file.write(durable_state(replace(state, attempts=2), policy))  # so does the next one
    state = first_state(file.read(), policy)
    assert state.failed_permanently
    assert describe(state, nothing_observed(0.0), policy)[0] is QueryState.FAILED
    assert action(state, nothing_observed(1e9), policy) is Action.WAIT


def test_a_failure_for_which_the_process_exits_counts_once() -> None:
    """Three stalls are three failures, and the message of the last one is not lost."""
    policy = replace(POLICY, max_attempts=POLICY.max_stalls + 1)
    stall = Failure("NoProgress", "nothing moves")
    state, what = committing(3)[0], Action.WAIT
    for _ in range(POLICY.max_stalls):
        state, what = decide(state, replace(UP, has_query=True, failure=stall), policy, 0.5)
    assert what is Action.EXIT_PROCESS
    known = durable_state(state, policy, counted=True)
    assert known.attempts == POLICY.max_stalls
    assert not first_state(known, policy).failed_permanently


def test_a_later_process_knows_what_this_one_has_learned(tmp_path: Path) -> None:
    """A spec that has proved itself stays so, and a slow query or a poison record is remembered."""
    file = DurableStateFile(tmp_path, "hash")
    state = State(proved=True, poison_failures=4, stalls=2, slowest=100.0)
    file.write(durable_state(state, POLICY))
    known = first_state(file.read(), POLICY)
    assert known == replace(state, attempts=1, slowest=128.0)
    # A query that is not slow needs no memory, and no write for each epoch.
    assert durable_state(replace(state, slowest=1.5), POLICY).slowest == 0.0


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"spec": "hash"}', "\0"])
def test_a_broken_memory_is_forgotten(text: str, tmp_path: Path) -> None:
    file = DurableStateFile(tmp_path, "hash")
    file.write(DurableState(proved=True))
    assert DurableStateFile(tmp_path, "another spec").read() == DurableState()
    assert file.read() == DurableState(proved=True)
    (tmp_path / "penstock" / "supervisor.json").write_text(text)
    assert file.read() == DurableState()


def test_the_policy_comes_from_the_spec() -> None:
    spec = stream(restart={"maxAttempts": 5, "stableAfter": "5m"}).spec
    policy = RestartPolicy.from_spec(spec)
    assert (policy.max_attempts, policy.stable_after, policy.interval) == (5, 300.0, 1.0)
    assert policy.mode is Mode.CONTINUOUS


def test_ready_means_committed_by_this_query() -> None:
    state, observation = running(epoch=3)
    assert not is_ready(state, observation)
    assert describe(state, observation, POLICY)[0] is QueryState.STARTING
    committed = replace(observation, epoch=4, now=101.0)
    state = after(state, committed)
    assert is_ready(state, committed)
    assert describe(state, committed, POLICY)[0] is QueryState.RUNNING


def test_a_failed_query_is_not_ready_until_it_commits_again() -> None:
    state, observation = running(epoch=3)
    state = after(state, replace(observation, epoch=4))
    state, what = decide(state, replace(UP, failure=PASSING, epoch=4), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.retry_at == 100.5
    assert describe(state, UP, POLICY) == (QueryState.RESTARTING, "after TaskFailed")
    assert action(state, replace(UP, now=100.4)) is Action.WAIT
    steps = [Action.CHECK_CHECKPOINT, Action.CHECK_QUERY, Action.START_QUERY]
    for n, step in enumerate(steps):
        state, what = decide(state, replace(UP, now=100.6 + n / 10, epoch=4), POLICY, 0.5)
        assert what is step
    assert state.restarts == 1
    again = replace(UP, now=100.8, epoch=4, has_query=True)
    assert not is_ready(after(state, again), again)
    again = replace(again, epoch=5)
    assert is_ready(after(state, again), again)


def test_a_permanent_failure_stops_the_session_and_is_not_retried() -> None:
    state, what = decide(State(), replace(UP, failure=PERMANENT), POLICY, 0.5)
    assert what is Action.STOP_SESSION
    assert describe(state, nothing_observed(100.0), POLICY) == (QueryState.FAILED, "Aggregate")
    assert action(state, nothing_observed(1e9)) is Action.WAIT
    assert state.restarts == 0


def test_a_recoverable_failure_is_rechecked_without_executors() -> None:
    state, _ = decide(State(), replace(nothing_observed(100.0), failure=RECOVERABLE), POLICY, 0.5)
    assert action(state, nothing_observed(101.0)) is Action.WAIT
    later = nothing_observed(101.0 + POLICY.recheck_interval)
    state, what = decide(state, later, POLICY, 0.5)
    assert what is Action.DISCOVER
    assert describe(state, later, POLICY)[0] is QueryState.FAILED
    later = replace(later, partitions=4)
    state, what = decide(state, later, POLICY, 0.5)
    assert what is Action.CHECK_CHECKPOINT
    again, what = decide(state, replace(later, failure=RECOVERABLE), POLICY, 0.5)
    assert what is Action.STOP_SESSION
    assert again.retry_at == later.now + POLICY.recheck_interval
    state = after(state, later)
    assert not state.failed_permanently
    assert action(state, later) is Action.START_SESSION


def failed_again(state: State, failure: Failure) -> tuple[float, Action]:
    """How long the supervisor waits after this failure, and its action."""
    failed, what = decide(state, replace(UP, failure=failure, has_query=True), POLICY, 0.5)
    assert failed.retry_at is not None
    return failed.retry_at - UP.now, what


@pytest.mark.parametrize("failure", [PERMANENT, RECOVERABLE])
def test_a_proved_spec_is_tried_again_for_ever(failure: Failure) -> None:
    """What ran once can run again: after a name server's outage, or with a right given back."""
    state, observation = committing(3)
    assert state.proved
    delays = []
    for _ in range(7):
        at = observation.now
        state, what = decide(state, replace(observation, failure=failure), POLICY, 0.5)
        assert what is Action.STOP_SESSION  # the executors are released meanwhile
        assert state.failure is not None
        assert not state.failure.permanent
        assert describe(state, nothing_observed(at), POLICY) == (
            QueryState.RESTARTING,
            f"after {failure.reason}",
        )
        assert state.retry_at is not None
        delays.append(state.retry_at - at)
        waiting = nothing_observed(state.retry_at - 1)
        assert action(state, waiting) is Action.WAIT
        assert not is_ready(state, waiting)
        # A whole attempt: the cause may be anywhere.
        observation = nothing_observed(state.retry_at + 1)
        for step in (Action.DISCOVER, Action.CHECK_CHECKPOINT, Action.START_SESSION):
            state, what = decide(state, observation, POLICY, 0.5)
            assert what is step
            observation = replace(observation, partitions=4)
        observation = replace(UP, now=observation.now + 1)
    assert delays == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0]


def test_what_is_found_without_executors_is_looked_at_more_often() -> None:
    state, _ = committing(3)
    state = after(state, replace(UP, failure=PERMANENT))
    for _ in range(5):
        seen = replace(nothing_observed(1000.0), failure=PERMANENT)
        state, _ = decide(state, seen, POLICY, 0.5)
        assert state.retry_at == 1030.0


def test_a_commit_ends_the_growth_of_the_delay() -> None:
    state, _ = committing(3, first=replace(CHECKED, rechecks=5))
    assert state.rechecks == 0
    assert failed_again(state, PERMANENT) == (30.0, Action.STOP_SESSION)


def test_a_commit_at_the_moment_of_the_failure_proves_the_spec() -> None:
    state, observation = running(epoch=3)
    state = after(state, replace(observation, epoch=4, failure=PERMANENT, has_query=False))
    assert state.proved
    assert state.retry_at is not None


def test_commits_of_an_earlier_spec_prove_nothing() -> None:
    state = after(State(), replace(UP, epoch=57, failure=PERMANENT))
    assert not state.proved
    assert state.retry_at is None


@pytest.mark.parametrize("policy", [CONTINUOUS, REAL_TIME], ids=["continuous", "real-time"])
def test_only_commits_with_records_prove_a_spec(policy: RestartPolicy) -> None:
    """A client that may not read the topic yet commits empty epochs, before it says so."""
    state, observation = running(policy=policy)
    remembered = replace(state, poison_failures=4, rechecks=4)
    state = remembered
    for epoch in range(3):
        observation = replace(observation, epoch=epoch, offsets={"in": {0: 7}})
        state = after(state, observation, policy)
    assert state.committed
    assert (state.proved, state.poison_failures, state.rechecks) == (False, 4, 4)
    state = after(state, replace(observation, epoch=3, offsets={"in": {0: 8}}), policy)
    assert (state.proved, state.poison_failures, state.rechecks) == (True, 0, 0)


@pytest.mark.parametrize("policy", [CONTINUOUS, REAL_TIME], ids=["continuous", "real-time"])
def test_commits_for_the_stable_time_prove_a_spec(policy: RestartPolicy) -> None:
    """The first commit may have held all the records that there are."""
    state, observation = running(policy=policy)
    first = observation.now
    for epoch, seconds in enumerate((0.0, 1.0, policy.stable_after - 1)):
        observation = replace(observation, epoch=epoch, offsets={"in": {0: 7}}, now=first + seconds)
        state = after(state, observation, policy)
    assert not state.proved
    observation = replace(observation, epoch=3, now=first + policy.stable_after)
    assert after(state, observation, policy).proved
    failed = after(state, replace(observation, failure=PASSING), policy)
    assert failed.healthy_since is None


def test_what_the_spec_asks_for_stays_final() -> None:
    """restart.maxAttempts, and failOnDataLoss, which is only looked at again."""
    state, _ = committing(3)
    policy = replace(POLICY, max_attempts=1)
    ended = after(state, replace(UP, failure=PASSING), policy)
    assert describe(ended, UP, policy)[0] is QueryState.FAILED
    assert ended.retry_at is None
    loss = replace(RECOVERABLE, reason="DataLoss", asked_for=True)
    ended = after(state, replace(UP, failure=loss))
    assert describe(ended, UP, POLICY)[0] is QueryState.FAILED
    assert ended.retry_at is not None


def test_a_poison_record_ends_a_stream_that_has_never_committed() -> None:
    state, observation, actions = State(), replace(UP, failure=MAYBE_POISON), []
    for _ in range(POLICY.max_poison_failures):
        state, what = decide(state, observation, POLICY, 0.5)
        actions.append(what)
    assert actions == [Action.STOP_QUERY] * (POLICY.max_poison_failures - 1) + [Action.STOP_SESSION]
    assert state.failure is not None
    assert state.failure.permanent


def test_a_poison_record_slows_down_a_proved_spec() -> None:
    """The record may be deleted, and each attempt writes the records before it again."""
    state, _ = committing(3)
    last = replace(state, poison_failures=POLICY.max_poison_failures - 1)
    assert failed_again(state, MAYBE_POISON)[1] is Action.STOP_QUERY
    assert failed_again(last, MAYBE_POISON) == (POLICY.recheck_cap, Action.STOP_SESSION)


def test_a_query_that_does_not_stop_ends_the_process() -> None:
    """Its thread could write to the checkpoint after the next repair."""
    state, observation = committing(3)
    stuck = replace(observation, failure=Failure(QUERY_NOT_STOPPED, ""))
    assert action(state, stuck) is Action.EXIT_PROCESS


@pytest.mark.parametrize(
    ("state", "observation", "cap"),
    [
        (State(), nothing_observed(0.0), POLICY.waiting_cap),
        (State(checkpoint_checked_at=90.0), UP, POLICY.waiting_cap),
        (State(started=True), UP, POLICY.backoff_cap),
    ],
    ids=["no session", "no query", "a query"],
)
def test_an_attempt_that_starts_no_query_is_repeated_soon(
    state: State, observation: Observation, cap: float
) -> None:
    """Brokers, name servers and the API server are back unannounced."""
    many, seen = replace(state, attempts=50), replace(observation, now=0.0, failure=PASSING)
    assert after(many, seen).retry_at == 0.5 * cap


def test_a_commit_resets_the_poison_failures() -> None:
    state, observation = running(epoch=3)
    state = after(replace(state, poison_failures=9), replace(observation, epoch=4))
    assert state.poison_failures == 0


def test_the_back_off_has_a_cap_and_resets_after_a_healthy_time() -> None:
    assert [POLICY.backoff(n, 0.999999) < POLICY.backoff_cap for n in (1, 50, 5000)] == [True] * 3
    assert POLICY.backoff(3, 0.5) == 2.0
    state, observation = running(epoch=3)
    state = replace(state, attempts=7)
    state = after(state, replace(observation, epoch=4))
    assert state.attempts == 7
    healthy = replace(observation, epoch=60, now=observation.now + POLICY.stable_after + 1)
    assert after(state, healthy).attempts == 0


def test_an_idle_query_is_ready() -> None:
    state, observation = running(epoch=3)
    works = replace(observation, activity=activity(work=(7, 0, 1, 5, 5)))
    assert not is_ready(after(state, works), works)
    idle = replace(observation, activity=activity(idle=True, confirmed_running=True))
    state = after(state, idle)
    assert is_ready(state, idle)
    assert describe(state, idle, POLICY)[0] is QueryState.RUNNING


def test_a_completed_query_stops_its_session_once() -> None:
    state, observation = running(epoch=3)
    ended = replace(observation, has_query=False, completed=True)
    state, what = decide(state, ended, POLICY, 0.5)
    assert what is Action.STOP_SESSION
    gone = replace(nothing_observed(500.0), completed=True)
    assert action(state, gone) is Action.WAIT
    assert is_ready(state, gone)
    assert describe(state, gone, POLICY) == (QueryState.COMPLETED, "")


def test_added_partitions_restart_the_query_when_the_cores_are_there() -> None:
    """This does not count as a failure."""
    state, observation = running()
    grown = replace(observation, partitions=5, desired_cores=5, partitions_added=True)
    assert action(state, grown) is Action.REQUEST_EXECUTORS
    asked = replace(grown, requested_cores=5)
    assert action(state, asked) is Action.WAIT
    state, what = decide(state, replace(asked, registered_cores=5), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    stopped = replace(asked, registered_cores=5, has_query=False, partitions_added=False)
    for step in (Action.CHECK_CHECKPOINT, Action.CHECK_QUERY, Action.START_QUERY):
        state, what = decide(state, stopped, POLICY, 0.5)
        assert what is step
    assert (state.restarts, state.attempts, state.retry_at) == (0, 0, None)


def test_added_partitions_are_no_recovery_from_a_failure_long_past() -> None:
    """Its reason would be in the status for the seconds of a planned restart."""
    state, observation = committing(3)
    state = after(state, replace(observation, failure=PASSING))
    assert describe(state, UP, POLICY)[0] is QueryState.RESTARTING
    state, observation = committing(4, first=replace(state, retry_at=None))
    assert (state.restarts, state.failure) == (1, PASSING)
    grown = replace(
        observation, partitions=5, desired_cores=5, requested_cores=5, registered_cores=5,
        partitions_added=True,
    )  # fmt: skip
    stopped = after(state, grown)
    assert describe(stopped, replace(grown, has_query=False), POLICY)[0] is QueryState.STARTING


def test_failures_over_a_record_count_as_attempts() -> None:
    """Also of a proved spec, which is tried again for ever without restart.maxAttempts."""
    state, observation = committing(3)
    policy, actions = replace(POLICY, max_attempts=3), []
    for failure in (PASSING, MAYBE_POISON, MAYBE_POISON):
        state, what = decide(state, replace(observation, failure=failure), policy, 0.5)
        actions.append(what)
    assert actions == [Action.STOP_QUERY, Action.STOP_QUERY, Action.STOP_SESSION]
    assert state.failed_permanently
    assert state.failure is not None
    assert "failure 3 in a row" in state.failure.message


def test_a_query_that_hangs_after_each_commit_does_not_count_as_healthy() -> None:
    """It is late long before it is restarted, and that time is longer than stableAfter."""
    state, observation = committing(3)
    state = replace(state, attempts=4)
    last = 101.0 + POLICY.stall_after + 1
    for now in (101.0 + POLICY.late_after + 1, 101.0 + POLICY.stable_after, last):
        state, what = decide(state, replace(observation, now=now), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.attempts == 5


def test_a_query_that_keeps_failing_gets_new_executors_and_then_a_new_process() -> None:
    """A class that an error has left unusable fails until its JVM ends, whatever was the cause."""
    state, actions = committing(3)[0], []
    for _ in range(POLICY.new_process_after):
        state = replace(state, restart_pending=False)  # it was started again
        state, what = decide(state, replace(UP, has_query=True, failure=PASSING), POLICY, 0.5)
        actions.append(what)
    sessions = [n for n, each in enumerate(actions, 1) if each is Action.STOP_SESSION]
    assert sessions == [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]
    assert actions[-1] is Action.EXIT_PROCESS


def test_a_source_that_is_away_costs_no_executors() -> None:
    """No query is started meanwhile, so it is not the query that keeps failing."""
    state, _ = committing(3)
    for _ in range(40):
        state, what = decide(state, replace(UP, failure=PASSING), POLICY, 0.5)
        assert what is Action.STOP_QUERY


@pytest.mark.parametrize("observed", [Observation, Activity])
def test_each_field_that_is_observed_is_read(observed: type[Any]) -> None:
    """And none has a default, so `runtime.observe` sets each (mypy, and every real run)."""
    sources = [path.read_text() for path in Path(next_action.__file__).parent.glob("*.py")]
    read = {
        node.attr
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
    }
    assert {field.name for field in fields(observed)} - read == set()
    assert [field.name for field in fields(observed) if field.default is not MISSING] == []
