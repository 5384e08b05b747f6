"""The supervisor's decisions, case by case."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from penstock.api.modes import Mode
from penstock.contract.driver_report import QueryState
from penstock.driver.failures import (
    CHECKPOINT_FULL,
    QUERY_NOT_STOPPED,
    Failure,
)
from penstock.driver.record_position import Position
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.report import ReportBuilder
from penstock.driver.spark.query_activity import Activity
from penstock.driver.supervision.history import History
from penstock.driver.supervision.next_action import (
    Action,
    NewFailure,
    NewWarning,
    QueryRestarted,
    first_state,
)
from penstock.driver.supervision.observation import Observation, nothing_observed
from penstock.driver.supervision.phases import Failed, Starting, State
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
    actions,
    activity,
    after,
    committing,
    decided,
    remembering,
    run_of,
    running,
)
from testkit.streams.streams import stream

# Steps to a running query.


def test_state_is_repartitioned_once_its_cores_are_there() -> None:
    """And the checkpoint is looked at again, if it has taken long."""
    divides = replace(UP, repartitions_state=True)
    no_cores = replace(divides, registered_cores=0)
    late = replace(UP, now=UP.now + 600)
    state, taken = actions(remembering(CHECKED, divisions=1), [no_cores, divides, late, late])
    assert state.history.divisions == 2
    assert taken == [
        Action.WAIT,
        Action.REPARTITION_STATE,
        Action.WAIT,
        Action.CHECK_CHECKPOINT,
    ]


def test_the_batch_before_a_division_of_state_proves_nothing() -> None:
    """Else an edit whose division fails would never be rolled back."""
    state, observation = running(epoch=3)
    for alone in (True, False):
        seen = replace(observation, epoch=4, runs_one_batch=alone)
        assert after(state, seen).history.proved is not alone
        assert after(remembering(state, proved=True), seen).history.proved


def test_the_steps_to_a_running_query() -> None:
    nothing = nothing_observed(100.0)
    found = replace(nothing, partitions=4)
    no_cores = replace(UP, registered_cores=0)
    # Executors come after the checkpoint: one that is refused must not cost any.
    assert actions(State(), [nothing, found, found, no_cores, no_cores, UP])[1] == [
        Action.DISCOVER,
        Action.CHECK_CHECKPOINT,
        Action.START_SESSION,
        Action.CHECK_QUERY,
        Action.WAIT,
        Action.START_QUERY,
    ]


def test_executors_that_depend_on_the_plan_are_asked_for_after_it() -> None:
    """Whether the query keeps state decides where they may run."""
    up = replace(UP, requested_cores=0, registered_cores=0, registered_executors=0)
    asked = replace(up, requested_cores=4)
    begun = State(Starting(checkpoint_checked_at=100.0))
    state, taken = actions(begun, [up, up])
    assert taken == [Action.CHECK_QUERY, Action.REQUEST_EXECUTORS]
    assert describe(state, up, POLICY) == (QueryState.STARTING, "")
    assert describe(state, asked, POLICY) == (QueryState.WAITING_FOR_CORES, "0 of 4 cores")
    assert actions(state, [asked, replace(asked, registered_cores=4)])[1] == [
        Action.WAIT,
        Action.START_QUERY,
    ]
    # A job that fails while the query is planned has lost no executor.
    failed = after(state, replace(up, failure=PASSING)).failure
    assert failed is not None
    assert failed.reason == PASSING.reason


def test_a_query_of_fewer_cores_gets_a_session_of_its_own() -> None:
    """After an edit: Spark gives no executor back."""
    fewer, begun = replace(UP, desired_cores=2), State(Starting(checkpoint_checked_at=100.0))
    assert actions(begun, [fewer, replace(fewer, has_session=False, requested_cores=0)])[1] == [
        Action.STOP_SESSION,
        Action.CHECK_CHECKPOINT,
    ]


def test_the_checkpoint_is_checked_before_each_start() -> None:
    """Also when the cores came late: records may have been deleted meanwhile."""
    state, _ = running()
    assert action(state, replace(UP, now=101.0)) is Action.CHECK_CHECKPOINT
    late = replace(UP, now=400.0)
    assert actions(CHECKED, [late, late])[1] == [Action.WAIT, Action.CHECK_CHECKPOINT]


def test_cores_that_the_state_cannot_use_are_said() -> None:
    state, observation = committing(3)
    for partitions, words in ((None, ""), (4, ""), (3, "no more than 3 of the 4 cores work on it")):
        seen = replace(observation, state_partitions=partitions)
        what, message = describe(state, seen, POLICY)
        assert what is QueryState.RUNNING
        assert (words in message) if words else message == ""


def test_a_query_that_the_supervisor_has_not_started_is_stopped() -> None:
    """Two would write to one checkpoint."""
    assert action(CHECKED, replace(UP, has_query=True)) is Action.STOP_QUERY


@pytest.mark.proves(15)
@pytest.mark.parametrize("policy", [CONTINUOUS, REAL_TIME])
def test_a_query_is_never_started_with_missing_cores(policy: RestartPolicy) -> None:
    """With one core for two partitions Spark would silently not read one of them."""
    few = replace(UP, registered_cores=1)
    _, taken = actions(CHECKED, [few, replace(few, now=10_000.0)], policy)
    assert Action.START_QUERY not in taken
    assert describe(CHECKED, few, policy) == (QueryState.WAITING_FOR_CORES, "1 of 4 cores")


@pytest.mark.proves(15)
def test_a_micro_batch_starts_with_fewer_cores_after_a_minute() -> None:
    """It reads all partitions with those that there are, and a lost node may not come back."""
    few = replace(UP, registered_cores=3)
    state, what, _ = decided(CHECKED, few)
    assert what is Action.WAIT
    assert describe(state, few, POLICY) == (QueryState.WAITING_FOR_CORES, "3 of 4 cores")
    later = replace(few, now=few.now + POLICY.cores_patience + 1)
    assert action(state, replace(later, registered_cores=0)) is Action.WAIT
    state, what, _ = decided(state, later)
    assert what is Action.START_QUERY
    runs = replace(later, has_query=True, epoch=0)
    state = after(state, runs)
    assert describe(state, runs, POLICY) == (
        QueryState.RUNNING,
        "The query runs with 3 of 4 cores.",
    )
    # The next session gets the time again.
    state, _ = actions(state, [replace(later, has_session=False)] * 2)
    assert actions(state, [later] * 2)[1] == [Action.CHECK_QUERY, Action.WAIT]


def test_more_partitions_request_executors_first() -> None:
    state, observation = running(epoch=3)
    assert action(state, replace(observation, desired_cores=6)) is Action.REQUEST_EXECUTORS
    short = replace(observation, desired_cores=6, requested_cores=6)
    assert action(state, short) is Action.WAIT


def test_added_partitions_restart_the_query_when_the_cores_are_there() -> None:
    """This is no failure, and no recovery from a failure long past."""
    state, observation = committing(3)
    state = after(state, replace(observation, failure=PASSING))
    assert describe(state, UP, POLICY)[0] is QueryState.RESTARTING
    state, observation = committing(4, first=state)
    assert (state.history.restarts, state.failure) == (1, None)
    grown = replace(observation, partitions=5, desired_cores=5, partitions_added=True)
    asked = replace(grown, requested_cores=5)
    there = replace(asked, registered_cores=5)
    state, taken = actions(state, [grown, asked, there])
    assert taken == [Action.REQUEST_EXECUTORS, Action.WAIT, Action.STOP_QUERY]
    stopped = replace(there, has_query=False, partitions_added=False)
    assert describe(state, stopped, POLICY)[0] is QueryState.STARTING
    state, taken = actions(state, [stopped] * 3)
    assert taken == [Action.CHECK_CHECKPOINT, Action.CHECK_QUERY, Action.START_QUERY]
    assert (state.history.restarts, state.history.attempts, state.retry_at) == (1, 1, None)


def test_a_local_session_that_was_stopped_for_more_cores_starts_again() -> None:
    state, _ = committing(3)
    gone = replace(nothing_observed(102.0), partitions=5, desired_cores=5)
    state, taken = actions(state, [gone, gone])
    assert taken == [Action.CHECK_CHECKPOINT, Action.START_SESSION]
    assert state.history.attempts == 0


# Readiness.


def test_the_policy_comes_from_the_spec() -> None:
    spec = stream(restart={"maxAttempts": 5, "stableAfter": "5m"}).spec
    assert RestartPolicy.from_spec(spec) == RestartPolicy(
        interval=1.0, mode=Mode.CONTINUOUS, max_attempts=5, stable_after=300.0
    )


IDLE = activity(idle=True, confirmed_running=True)
TASKS = activity(confirmed_running=True, work=(7, 0, 0, 0, 0))
MICRO_BATCH, ASYNC = (replace(POLICY, mode=mode) for mode in (Mode.MICRO_BATCH, Mode.ASYNC))


@pytest.mark.proves(17)
@pytest.mark.parametrize(
    ("policy", "works", "words"),
    [
        (CONTINUOUS, None, ""),
        (MICRO_BATCH, IDLE, "found none, and waits"),
        (ASYNC, IDLE, "found none, and waits"),
        (REAL_TIME, TASKS, "All tasks of the query run"),
    ],
    ids=lambda value: value.mode.name if isinstance(value, RestartPolicy) else "",
)
def test_ready_means_that_this_query_works_and_says_what_it_has_committed(
    policy: RestartPolicy, works: Activity | None, words: str
) -> None:
    """Each mode has its first sign. A commit of the query before, epoch 3, is none."""
    state, seen = running(epoch=3, policy=policy)
    reads = replace(seen, activity=activity(active_tasks=4, work=(7, 0, 1, 5, 5)))
    started = after(state, reads, policy)
    assert not is_ready(started)
    said = describe(started, reads, policy)
    assert started.query_runs
    assert said == (QueryState.STARTING, "The query runs and has not committed its first epoch yet")
    if works is not None:
        shows = replace(seen, activity=works)
        state = after(started, shows, policy)
        what, message = describe(state, shows, policy)
        assert (is_ready(state), what, state.committed) == (True, QueryState.RUNNING, False)
        assert words in message
    committed = replace(seen, epoch=4, now=101.0)
    state = after(state, committed, policy)
    assert is_ready(state)
    assert state.committed
    assert describe(state, committed, policy) == (QueryState.RUNNING, "")


@pytest.mark.proves(17)
def test_a_failed_query_is_not_ready_until_it_commits_again() -> None:
    state, observation = committing(4)
    state, what, events = decided(state, replace(UP, failure=PASSING, epoch=4))
    assert (what, state.retry_at, events) == (Action.STOP_QUERY, 100.5, (NewFailure(PASSING),))
    assert describe(state, UP, POLICY) == (QueryState.RESTARTING, "after TaskFailed")
    assert not state.query_runs
    ready = [replace(UP, now=now, epoch=4) for now in (100.4, 100.6, 100.7)]
    state, taken = actions(state, ready)
    assert taken == [Action.WAIT, Action.CHECK_CHECKPOINT, Action.CHECK_QUERY]
    state, what, events = decided(state, replace(UP, now=100.8, epoch=4))
    assert (what, events) == (Action.START_QUERY, (QueryRestarted(PASSING),))
    assert state.history.restarts == 1
    again = replace(observation, now=100.9)
    assert not is_ready(after(state, again))
    assert not after(state, again).query_runs  # it is not said to be left running
    assert is_ready(after(state, replace(again, epoch=5)))


def test_a_completed_query_stops_its_session_once() -> None:
    state, observation = committing(3)
    ended = replace(observation, has_query=False, completed=True)
    gone = replace(nothing_observed(500.0), completed=True)
    state, taken = actions(state, [ended, gone])
    assert taken == [Action.STOP_SESSION, Action.WAIT]
    assert is_ready(state)
    assert state.committed
    assert describe(state, gone, POLICY) == (QueryState.COMPLETED, "")


def test_a_warning_is_told_once_and_stops_nothing() -> None:
    """The query runs, and is ready: it is no failure."""
    state, observation = committing(3)
    warning = Failure("TooFewExecutorsAllowed", "2 of 3")
    warned = replace(observation, warning=warning)
    state, what, events = decided(state, warned)
    assert (what, events) == (Action.WAIT, (NewWarning(warning),))
    assert decided(state, warned).events == ()
    assert (is_ready(state), state.history.attempts) == (True, 0)
    assert describe(state, warned, POLICY) == (QueryState.RUNNING, "2 of 3")
    state = after(state, observation)
    assert len(decided(state, warned).events) == 1, "it has come back"


# Failures.


def failed_again(state: State, failure: Failure) -> tuple[float, Action]:
    """How long the supervisor waits after this failure, and its action."""
    failed, what, _ = decided(state, replace(UP, failure=failure, has_query=True))
    assert failed.retry_at is not None
    return failed.retry_at - UP.now, what


def test_a_permanent_failure_stops_the_session_and_is_not_retried() -> None:
    state, what, _ = decided(State(), replace(UP, failure=PERMANENT))
    assert what is Action.STOP_SESSION
    assert describe(state, nothing_observed(100.0), POLICY) == (QueryState.FAILED, "Aggregate")
    assert action(state, nothing_observed(1e9)) is Action.WAIT
    later, what, events = decided(state, replace(nothing_observed(1e9), failure=PASSING))
    assert (later.phase, what, events) == (state.phase, Action.STOP_SESSION, ())
    assert action(state, replace(UP, has_query=True)) is Action.STOP_SESSION


def test_a_recoverable_failure_is_rechecked_without_executors() -> None:
    refused = replace(nothing_observed(100.0), failure=RECOVERABLE)
    state, _, events = decided(State(), refused)
    assert events == (NewFailure(RECOVERABLE),)
    later = nothing_observed(101.0 + POLICY.recheck_interval)
    found = replace(later, partitions=4)
    state, taken = actions(state, [nothing_observed(101.0), later, found])
    assert taken == [Action.WAIT, Action.DISCOVER, Action.CHECK_CHECKPOINT]
    assert describe(state, found, POLICY)[0] is QueryState.FAILED
    again, what, events = decided(state, replace(found, failure=RECOVERABLE))
    assert (what, events) == (Action.STOP_SESSION, (NewFailure(RECOVERABLE, repeated=True),))
    assert again.retry_at == later.now + POLICY.recheck_interval
    state, taken = actions(state, [found, found])
    assert taken == [Action.WAIT, Action.START_SESSION]
    assert describe(state, found, POLICY)[0] is QueryState.RESTARTING


@pytest.mark.proves(23, "failures.md#stalled-or-restarting")
@pytest.mark.parametrize("failure", [PERMANENT, RECOVERABLE])
def test_a_proved_spec_is_tried_again_for_ever(failure: Failure) -> None:
    """What ran once can run again: after a name server's outage, or with a right given back."""
    state, observation = committing(3)
    assert state.history.proved
    delays = []
    for _ in range(7):
        at = observation.now
        state, what, _ = decided(state, replace(observation, failure=failure))
        assert what is Action.STOP_SESSION  # the executors are released meanwhile
        assert state.failure == replace(failure, permanent=False)
        assert describe(state, nothing_observed(at), POLICY) == (
            QueryState.RESTARTING,
            f"after {failure.reason}",
        )
        assert not is_ready(state)
        assert state.retry_at is not None
        delays.append(state.retry_at - at)
        # A whole attempt: the cause may be anywhere.
        now = nothing_observed(state.retry_at + 1)
        found = replace(now, partitions=4)
        state, taken = actions(state, [nothing_observed(state.retry_at - 1), now, found, found])
        assert taken == [
            Action.WAIT, Action.DISCOVER, Action.CHECK_CHECKPOINT, Action.START_SESSION,
        ]  # fmt: skip
        observation = replace(UP, now=now.now + 1)
    assert delays == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0]


def test_what_is_found_without_executors_is_looked_at_more_often() -> None:
    state, _ = committing(3)
    state = after(state, replace(UP, failure=PERMANENT))
    for _ in range(5):
        refused = replace(nothing_observed(200.0), failure=PERMANENT)
        state = after(state, refused)
        assert state.retry_at == 200.0 + POLICY.recheck_interval
    assert failed_again(state, PERMANENT) == (60.0, Action.STOP_SESSION)


def test_a_commit_at_the_moment_of_the_failure_proves_the_spec() -> None:
    state, observation = running(epoch=3)
    state = after(state, replace(observation, epoch=4, failure=PERMANENT, has_query=False))
    assert state.history.proved
    assert state.retry_at is not None


def test_commits_of_an_earlier_spec_prove_nothing() -> None:
    state = after(State(), replace(UP, epoch=57, failure=PERMANENT))
    assert not state.history.proved
    assert state.retry_at is None


@pytest.mark.parametrize("policy", [CONTINUOUS, REAL_TIME], ids=["continuous", "real-time"])
def test_only_commits_with_records_prove_a_spec(policy: RestartPolicy) -> None:
    """A client that may not read the topic yet commits empty epochs, before it says so."""
    state, observation = running(policy=policy)
    state = remembering(state, poison_failures=4, rechecks=4)
    empty = [replace(observation, epoch=epoch, offsets={"in": {0: 7}}) for epoch in range(3)]
    state, _ = actions(state, empty, policy)
    assert run_of(state).confirmed
    assert state.history == History(poison_failures=4, rechecks=4)
    state = after(state, replace(observation, epoch=3, offsets={"in": {0: 8}}), policy)
    assert state.history == History(proved=True)


@pytest.mark.proves(23)
@pytest.mark.parametrize("policy", [CONTINUOUS, REAL_TIME], ids=["continuous", "real-time"])
def test_commits_for_the_stable_time_prove_a_spec(policy: RestartPolicy) -> None:
    """The first commit may have held all the records that there are."""
    state, observation = running(policy=policy)
    first = observation.now
    for epoch, seconds in enumerate((0.0, 1.0, policy.stable_after - 1)):
        observation = replace(observation, epoch=epoch, offsets={"in": {0: 7}}, now=first + seconds)
        state = after(state, observation, policy)
    assert not state.history.proved
    observation = replace(observation, epoch=3, now=first + policy.stable_after)
    assert after(state, observation, policy).history.proved


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


@pytest.mark.proves(22)
@pytest.mark.parametrize("others", [PASSING, MAYBE_POISON])
def test_max_attempts_makes_a_failure_permanent(others: Failure) -> None:
    """Also failures over a record, and of a proved spec, which is else tried again for ever."""
    policy = replace(POLICY, max_attempts=3)
    for first in (State(), committing(3)[0]):
        failures = [replace(UP, failure=failure) for failure in (PASSING, others, others)]
        state, taken = actions(first, failures, policy)
        assert taken == [Action.STOP_QUERY, Action.STOP_QUERY, Action.STOP_SESSION]
        assert isinstance(state.phase, Failed)
        assert "failure 3 in a row, and restart.maxAttempts is 3" in state.phase.failure.message
        assert action(state, replace(UP, now=1e6), policy) is Action.WAIT


@pytest.mark.parametrize("raised", [4, None])
def test_another_limit_ends_what_max_attempts_has_ended(raised: int | None) -> None:
    """An edit of it restarts no driver, and failures count on from those before."""
    policy = replace(POLICY, max_attempts=3)
    for ended in (
        actions(State(), [replace(UP, failure=PASSING)] * 3, policy)[0],
        first_state(History(attempts=3), policy, UP.now),
    ):
        waits = nothing_observed(1e6)
        assert action(ended, waits, replace(policy, stable_after=9.0)) is Action.WAIT
        assert action(ended, waits, replace(policy, max_attempts=2)) is Action.WAIT
        edited = replace(policy, max_attempts=raised)
        state, taken = actions(ended, [waits, replace(waits, failure=PASSING)], edited)
        assert taken[0] is Action.DISCOVER
        assert state.history.attempts == 4
        assert isinstance(state.phase, Failed) == (raised == 4)


def test_another_limit_does_not_end_another_stall() -> None:
    """What Spark refuses it refuses again."""
    policy = replace(POLICY, max_attempts=1)
    state = after(State(), replace(UP, failure=PERMANENT), policy)
    assert isinstance(state.phase, Failed)
    assert after(state, UP, replace(policy, max_attempts=None)) == state


def test_a_failure_for_which_the_process_exits_counts_once() -> None:
    """Three stalls are three failures, and the message of the last one is not lost."""
    policy = replace(POLICY, max_attempts=POLICY.max_stalls + 1)
    stalled = replace(UP, has_query=True, failure=Failure("NoProgress", "nothing moves"))
    state, taken = actions(committing(3)[0], [stalled] * POLICY.max_stalls, policy)
    assert taken[-1] is Action.EXIT_PROCESS
    known = state.history.for_next_process(policy, counted=True)
    assert known.attempts == POLICY.max_stalls
    assert not isinstance(first_state(known, policy, 0.0).phase, Failed)


def test_a_poison_record_ends_a_stream_that_has_never_committed() -> None:
    poisoned = [replace(UP, failure=MAYBE_POISON)] * POLICY.max_poison_failures
    state, taken = actions(State(), poisoned)
    assert taken == [Action.STOP_QUERY] * (POLICY.max_poison_failures - 1) + [Action.STOP_SESSION]
    assert state.failure == replace(MAYBE_POISON, permanent=True)


def test_a_poison_record_slows_down_a_proved_spec() -> None:
    """The record may be deleted, and each attempt writes the records before it again."""
    state, observation = committing(3)
    last = remembering(state, poison_failures=POLICY.max_poison_failures - 1)
    assert failed_again(state, MAYBE_POISON)[1] is Action.STOP_QUERY
    assert failed_again(last, MAYBE_POISON) == (POLICY.recheck_interval, Action.STOP_SESSION)
    worst = replace(last, history=replace(last.history, rechecks=9))
    assert failed_again(worst, MAYBE_POISON) == (POLICY.recheck_cap, Action.STOP_SESSION)
    assert after(last, replace(observation, epoch=4)).history.poison_failures == 0


@pytest.mark.proves("failures.md#the-transform-cannot-process-a-record")
def test_two_failures_over_one_record_are_enough() -> None:
    """Also if other partitions fail, or commit, in between."""
    first, other = Position("in", 2, 7), Position("in", 1, 7)
    over_first, over_other = (replace(MAYBE_POISON, record=at) for at in (first, other))
    state, observation = committing(3)
    state, taken = actions(state, [replace(observation, failure=over_first)])
    assert taken == [Action.STOP_QUERY]
    state, _ = committing(4, first=replace(state, phase=CHECKED.phase))
    state, taken = actions(state, [replace(observation, failure=over_other)])
    assert taken == [Action.STOP_QUERY]
    assert state.history.suspects == {first, other}
    assert failed_again(state, over_first) == (POLICY.recheck_interval, Action.STOP_SESSION)
    # A later record of the partition is another one; what is committed is none.
    later = replace(MAYBE_POISON, record=Position("in", 2, 8))
    assert failed_again(state, later)[1] is Action.STOP_QUERY
    behind = replace(observation, epoch=9, offsets={"in": {2: 8, 1: 7}})
    run = replace(run_of(committing(4)[0]))
    assert after(replace(state, phase=run), behind).history.suspects == {other}


def test_a_record_becomes_a_dead_letter_at_the_second_failure_over_it() -> None:
    """Unless so many did that the transform may be broken: then it ends as without them."""
    policy = replace(POLICY, dead_letters_per_minute=2)
    over = replace(MAYBE_POISON, record=Position("in", 0, 7))
    failed = replace(UP, failure=over, has_query=True)
    first, what, _ = decided(committing(3)[0], failed, policy)
    assert what is Action.STOP_QUERY
    state, what, events = decided(first, replace(failed, dead_letters=1), policy)
    assert what is Action.COPY_DEAD_LETTER
    assert state.failure is not None
    assert state.failure.record == over.record
    assert [type(each) for each in events] == [NewFailure]
    assert state.history.failures_in_a_row == 2
    made, what, _ = decided(state, UP, policy)
    assert what is Action.CHECK_CHECKPOINT
    assert made.history.failures_in_a_row == 0
    state, what, _ = decided(first, replace(failed, dead_letters=2), policy)
    assert what is Action.STOP_SESSION
    assert state.failure is not None
    assert state.failure.reason == "TooManyDeadLetters"
    assert "More than 2 records failed within a minute, or" in state.failure.message
    # A minute later it may still be broken: the record has to pass first.
    later = replace(UP, failure=over, has_query=True)
    assert decided(state, later, policy).action is Action.STOP_SESSION
    run = run_of(committing(4)[0])
    passed = after(replace(state, phase=run), replace(UP, epoch=9, offsets={"in": {0: 8}}), policy)
    assert not passed.history.dead_letters_stopped


@pytest.mark.proves(37)
@pytest.mark.parametrize("proved", [True, False])
@pytest.mark.parametrize("lasts", [True, False])
def test_no_query_starts_before_a_dead_letter_is_written(*, lasts: bool, proved: bool) -> None:
    """It would fail over the record again. Only the copy is tried, whatever keeps it from being
    made, and soon without executors."""
    policy = replace(POLICY, dead_letters_per_minute=2)
    over = replace(MAYBE_POISON, record=Position("in", 0, 7))
    not_written = replace(over, reason="DeadLetterNotWritten", permanent=lasts)
    state, seen = running(policy=policy)[0] if not proved else committing(3)[0], UP
    for _ in range(2):
        ran = replace(state, phase=run_of(committing(3)[0]))
        state, what, _ = decided(ran, replace(UP, failure=over, has_query=True), policy)
    full = replace(RECOVERABLE, reason=CHECKPOINT_FULL)
    now, failures, copies = UP.now, [not_written, PASSING, not_written, full] * 9, 1
    for failure in failures:
        assert what is Action.COPY_DEAD_LETTER
        state, what, _ = decided(state, replace(seen, now=now, failure=failure), policy)
        for _ in range(9):
            assert what is not Action.START_QUERY
            if what is Action.COPY_DEAD_LETTER:
                break
            session = seen.has_session and what is not Action.STOP_SESSION
            found = what is Action.DISCOVER or (seen.partitions and what is not Action.STOP_SESSION)
            seen = replace(seen, has_session=session, partitions=4 if found else None)
            now = max(now + 0.25, state.retry_at or 0.0)
            state, what, _ = decided(state, replace(seen, now=now), policy)
        copies += 1
    assert copies == len(failures) + 1
    assert not seen.has_session
    assert state.retry_at is None
    # Once it is made, all begins anew.
    state, what, _ = decided(state, replace(seen, now=now), policy)
    assert what is Action.START_SESSION
    assert state.history.poison_failures == 0
    assert state.uncopied is None


@pytest.mark.proves(37)
def test_a_dead_letter_that_is_not_written_counts_for_the_limit_of_attempts() -> None:
    policy = replace(POLICY, dead_letters_per_minute=2, max_attempts=4)
    over = replace(MAYBE_POISON, record=Position("in", 0, 7))
    not_written = replace(over, reason="DeadLetterNotWritten", permanent=True)
    state, copied = committing(3)[0], 0
    for _ in range(2):
        ran = replace(state, phase=run_of(committing(3)[0]))
        state, what, _ = decided(ran, replace(UP, failure=over, has_query=True), policy)
    while what is Action.COPY_DEAD_LETTER:
        copied += 1
        state, what, _ = decided(state, replace(UP, failure=not_written), policy)
        for _ in range(4):
            late = replace(UP, now=(state.retry_at or 0.0) + 1.0)
            if what is not Action.COPY_DEAD_LETTER:
                state, what, _ = decided(state, late, policy)
    assert copied == 2
    assert isinstance(state.phase, Failed)
    assert state.retry_at is None
    assert (
        "This was failure 4 in a row, and restart.maxAttempts is 4." in state.phase.failure.message
    )
    # Raised, it goes on where it was: with the copy.
    seen, policy, taken = replace(UP, partitions=None), replace(policy, max_attempts=9), []
    for _ in range(3):
        state, what, _ = decided(state, seen, policy)
        taken.append(what)
        seen = UP
    assert taken == [Action.DISCOVER, Action.CHECK_CHECKPOINT, Action.COPY_DEAD_LETTER]


def test_a_query_that_does_not_stop_ends_the_process() -> None:
    """Its thread could write to the checkpoint after the next repair."""
    state, observation = committing(3)
    stuck = replace(observation, failure=Failure(QUERY_NOT_STOPPED, ""))
    state, what, _ = decided(state, stuck)
    assert what is Action.EXIT_PROCESS
    assert state.failure == stuck.failure


# The back-off.


@pytest.mark.parametrize(
    ("state", "observation", "cap"),
    [
        (State(), nothing_observed(0.0), POLICY.waiting_cap),
        (State(Starting(checkpoint_checked_at=90.0)), UP, POLICY.waiting_cap),
        (running()[0], UP, POLICY.backoff_cap),
    ],
    ids=["no session", "no query", "a query"],
)
def test_an_attempt_that_starts_no_query_is_repeated_soon(
    state: State, observation: Observation, cap: float
) -> None:
    """Brokers, name servers and the API server are back unannounced."""
    many, seen = remembering(state, attempts=50), replace(observation, now=0.0, failure=PASSING)
    assert after(many, seen).retry_at == 0.5 * cap


def test_the_back_off_has_a_cap_and_resets_after_a_healthy_time() -> None:
    assert [POLICY.backoff(n, 0.999999) < POLICY.backoff_cap for n in (1, 50, 5000)] == [True] * 3
    assert POLICY.backoff(3, 0.5) == 2.0
    state, observation = running(epoch=3)
    state = after(remembering(state, attempts=7), replace(observation, epoch=4))
    assert state.history.attempts == 7
    healthy = replace(observation, epoch=60, now=observation.now + POLICY.stable_after + 1)
    assert after(state, healthy).history.attempts == 0


def test_a_query_that_hangs_after_each_commit_does_not_count_as_healthy() -> None:
    """It is late long before it is restarted, and that time is longer than stableAfter."""
    state, observation = committing(3)
    times = (POLICY.late_after + 1, POLICY.stable_after, POLICY.stall_after + 1)
    late = [replace(observation, now=101.0 + seconds) for seconds in times]
    state, taken = actions(remembering(state, attempts=4), late)
    assert taken[-1] is Action.STOP_QUERY
    assert state.history.attempts == 5


def test_a_query_that_keeps_failing_gets_new_executors_and_then_a_new_process() -> None:
    """A class that an error has left unusable fails until its JVM ends, whatever was the cause."""
    state, taken = committing(3)[0], []
    for _ in range(POLICY.new_process_after):
        state, _ = running(first=state)
        state, what, _ = decided(state, replace(UP, has_query=True, failure=PASSING))
        taken.append(what)
    sessions = [n for n, what in enumerate(taken, 1) if what is Action.STOP_SESSION]
    assert sessions == [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]
    assert taken[-1] is Action.EXIT_PROCESS


def test_a_source_that_is_away_costs_no_executors() -> None:
    """No query is started meanwhile, so it is not the query that keeps failing."""
    state, taken = actions(committing(3)[0], [replace(UP, failure=PASSING)] * 40)
    assert taken == [Action.STOP_QUERY] * 40
    assert state.history.query_failures == 1


def test_each_field_that_is_observed_is_read() -> None:
    """And none has a default, so `QueryRuntime.observe` sets each (mypy, and every real run)."""
    read: set[str] = set()

    class ReadObservation(Observation):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    class ReadActivity(Activity):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    reports = ReportBuilder("hash", Metrics())
    idle = {"activity": activity(idle=True, idle_trigger="12:00:10", work=())}
    broken = {"failure": replace(MAYBE_POISON, record=Position("in", 1, 7))}
    for policy in (POLICY, CONTINUOUS, REAL_TIME):
        policy = replace(policy, dead_letters_per_minute=2)
        state, observation = running(3, policy=policy)
        state = after(state, ReadObservation(**{**vars(observation), "epoch": 4}), policy)
        state, observation = committing(3, policy)
        late = observation.now + policy.stall_after + 1
        for change in (idle, idle, {"now": late}, broken, broken):
            plain = replace(observation, **change)
            seen = ReadObservation(
                **{**vars(plain), "activity": ReadActivity(**vars(plain.activity))}
            )
            following = after(state, seen, policy)
            offsets = ({"in": {0: 1}}, {"in": {0: 2}})
            reports.build(*describe(following, seen, policy), following, seen, None, offsets)
            state = following
    after(CHECKED, ReadObservation(**vars(UP)), POLICY)
    observed = [*fields(Observation), *fields(Activity)]
    assert {field.name for field in observed} - read == set()
    assert [field.name for field in observed if field.default is not MISSING] == []
