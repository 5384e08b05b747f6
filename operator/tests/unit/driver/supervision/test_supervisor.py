"""The supervisor's decisions, case by case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import Failure
from penstock.driver.supervision.failure_count import FailureCount
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.state import Observation, State
from penstock.driver.supervision.supervisor import Action, decide, describe, first_state, is_ready
from testkit.driver.observations import (
    MAYBE_POISON,
    PASSING,
    PERMANENT,
    POLICY,
    RECOVERABLE,
    UP,
    action,
    after,
    running,
)
from testkit.streams.streams import MICRO_BATCH, stream


def test_the_steps_to_a_running_query() -> None:
    nothing = Observation(now=100.0)
    assert action(State(), nothing) is Action.DISCOVER
    assert action(State(), replace(nothing, partitions=4)) is Action.START_SESSION
    assert action(State(), replace(UP, registered_cores=0)) is Action.CHECK_QUERY
    assert action(State(query_checked=True), replace(UP, registered_cores=3)) is Action.WAIT
    assert action(State(query_checked=True), UP) is Action.START_QUERY


def test_a_query_is_never_started_with_missing_cores() -> None:
    """With one core for two partitions Spark would silently not read one of them."""
    state, observation = State(query_checked=True), replace(UP, registered_cores=1)
    assert action(state, observation) is Action.WAIT
    assert describe(state, observation, POLICY) == (QueryState.WAITING_FOR_CORES, "1 of 4 cores")


def test_more_partitions_request_executors_first() -> None:
    state, observation = running(epoch=3)
    assert action(state, replace(observation, desired_cores=6)) is Action.REQUEST_EXECUTORS
    short = replace(observation, desired_cores=6, requested_cores=6)
    assert action(state, short) is Action.WAIT
    assert describe(state, short, POLICY) == (QueryState.WAITING_FOR_CORES, "4 of 6 cores")


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
    kept = FailureCount(tmp_path, "hash")
    assert first_state(kept.read(), policy) == State()
    kept.write(0)  # this process crashes
    state = first_state(kept.read(), policy)
    assert (state.attempts, state.failed_permanently) == (1, False)
    kept.write(2)  # the next one crashes after two failures
    state = first_state(kept.read(), policy)
    assert state.failed_permanently
    assert describe(state, Observation(now=0.0), policy)[0] is QueryState.FAILED
    assert action(state, Observation(now=0.0)) is Action.WAIT
    # A new spec starts at zero, and so does a start after a clean stop.
    assert FailureCount(tmp_path, "another").read() == 0
    kept.reset()
    assert kept.read() == 0
    (tmp_path / "penstock" / "attempts.json").write_text("{")
    assert kept.read() == 0


def test_the_policy_comes_from_the_spec() -> None:
    spec = stream(restart={"maxAttempts": 5, "stableAfter": "5m"}).spec
    policy = RestartPolicy.from_spec(spec)
    assert (policy.max_attempts, policy.stable_after, policy.interval) == (5, 300.0, 1.0)
    assert policy.continuous
    assert not RestartPolicy.from_spec(stream(trigger=MICRO_BATCH).spec).continuous


def test_ready_means_committed_by_this_query() -> None:
    state, observation = running(epoch=3)
    assert not is_ready(state, observation, POLICY)
    assert describe(state, observation, POLICY)[0] is QueryState.STARTING
    committed = replace(observation, epoch=4, now=101.0)
    state = after(state, committed)
    assert is_ready(state, committed, POLICY)
    assert describe(state, committed, POLICY)[0] is QueryState.RUNNING
    assert not is_ready(state, replace(committed, now=101.0 + POLICY.commit_timeout + 1), POLICY)


def test_a_failed_query_is_not_ready_until_it_commits_again() -> None:
    state, observation = running(epoch=3)
    state = after(state, replace(observation, epoch=4))
    state, what = decide(state, replace(UP, failure=PASSING, epoch=4), POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.retry_at == 100.5
    assert describe(state, UP, POLICY) == (QueryState.RESTARTING, "after TaskFailed")
    assert action(state, replace(UP, now=100.4)) is Action.WAIT
    state, what = decide(state, replace(UP, now=100.6, epoch=4), POLICY, 0.5)
    assert what is Action.CHECK_QUERY
    state, what = decide(state, replace(UP, now=100.7, epoch=4), POLICY, 0.5)
    assert what is Action.START_QUERY
    assert state.restarts == 1
    again = replace(UP, now=100.8, epoch=4, has_query=True)
    assert not is_ready(after(state, again), again, POLICY)
    again = replace(again, epoch=5)
    assert is_ready(after(state, again), again, POLICY)


def test_a_permanent_failure_stops_the_session_and_is_not_retried() -> None:
    state, what = decide(State(), replace(UP, failure=PERMANENT), POLICY, 0.5)
    assert what is Action.STOP_SESSION
    assert describe(state, Observation(now=100.0), POLICY) == (QueryState.FAILED, "Aggregate")
    assert action(state, Observation(now=1e9)) is Action.WAIT
    assert state.restarts == 0


def test_a_recoverable_failure_is_rechecked() -> None:
    state, _ = decide(State(), Observation(now=100.0, failure=RECOVERABLE), POLICY, 0.5)
    assert action(state, Observation(now=101.0)) is Action.WAIT
    later = Observation(now=101.0 + POLICY.recheck_interval)
    state, what = decide(state, later, POLICY, 0.5)
    assert what is Action.DISCOVER
    state = after(state, replace(later, partitions=4))
    assert not state.failed_permanently
    assert action(state, replace(later, partitions=4)) is Action.START_SESSION


def test_a_poison_record_becomes_a_permanent_failure() -> None:
    state, observation, actions = State(), replace(UP, failure=MAYBE_POISON), []
    for _ in range(POLICY.max_poison_failures):
        state, what = decide(state, observation, POLICY, 0.5)
        actions.append(what)
    assert actions == [Action.STOP_QUERY] * (POLICY.max_poison_failures - 1) + [Action.STOP_SESSION]
    assert state.failure is not None
    assert state.failure.permanent


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
    batch_running = replace(observation, batch_running=True)
    assert not is_ready(after(state, batch_running), batch_running, POLICY)
    idle = replace(observation, idle=True, confirmed_running=True)
    state = after(state, idle)
    assert is_ready(state, idle, POLICY)
    assert describe(state, idle, POLICY)[0] is QueryState.RUNNING


def test_a_completed_query_stops_its_session_once() -> None:
    state, observation = running(epoch=3)
    ended = replace(observation, has_query=False, completed=True)
    state, what = decide(state, ended, POLICY, 0.5)
    assert what is Action.STOP_SESSION
    gone = Observation(now=500.0, completed=True)
    assert action(state, gone) is Action.WAIT
    assert is_ready(state, gone, POLICY)
    assert describe(state, gone, POLICY) == (QueryState.COMPLETED, "")


def test_a_source_outage_is_reported_and_waited_for() -> None:
    """Spark resumes by itself when the source is back, and reports nothing."""
    source_outage = Failure("BrokerUnreachable", "no answer")
    state, observation = running()
    state = after(state, replace(observation, epoch=0))
    gone = replace(observation, now=101.0, epoch=0, source_outage=source_outage)
    state, what = decide(state, gone, POLICY, 0.5)
    assert what is Action.WAIT
    assert state.failure is source_outage
    assert describe(state, gone, POLICY) == (
        QueryState.RESTARTING,
        "waiting for the source: BrokerUnreachable",
    )
    assert not is_ready(state, gone, POLICY)
    back = replace(gone, now=102.0, source_outage=None)
    state = after(state, back)
    assert describe(state, back, POLICY)[0] is QueryState.RUNNING
    assert is_ready(state, back, POLICY)
    assert state.restarts == 0


def test_a_stall_during_a_source_outage_reports_the_outage() -> None:
    state, observation = running()
    source_outage = Failure("BrokerUnreachable", "no answer")
    late = replace(
        observation, now=observation.now + POLICY.commit_timeout + 1, source_outage=source_outage
    )
    state, what = decide(state, late, POLICY, 0.5)
    assert what is Action.STOP_QUERY
    assert state.failure == source_outage


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
    state, what = decide(state, stopped, POLICY, 0.5)
    assert what is Action.CHECK_QUERY
    state, what = decide(state, stopped, POLICY, 0.5)
    assert what is Action.START_QUERY
    assert (state.restarts, state.attempts, state.retry_at) == (0, 0, None)
