"""Decides what to do next about one query. Pure.

driver/loop.py observes, calls `decide`, executes the action and reports. An exception while
observing or acting becomes the failure of the next observation, so all failures are handled here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

from penstock.contract.remedies import REMEDIES
from penstock.driver.failures import (
    DEAD_LETTER_NOT_WRITTEN,
    QUERY_NOT_STOPPED,
    STORAGE_FAILURES,
    TASK_FAILED,
    Failure,
)
from penstock.driver.supervision import run_progress, stall_detection
from penstock.driver.supervision.history import History
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.phases import (
    BackingOff,
    Completed,
    Failed,
    Phase,
    Running,
    Starting,
    State,
)
from penstock.driver.supervision.restart_policy import RestartPolicy

# A check of the checkpoint is repeated if the query does not start within this time. The steps in
# between take two minutes at most.
_CHECK_SECONDS = 180.0
# While such a failure lasts, it is found again and again, by looks that are no attempts.
_WAITED_FOR = STORAGE_FAILURES | {DEAD_LETTER_NOT_WRITTEN}


class Action(Enum):
    """One step of the driver. The duration of each step is bounded."""

    WAIT = auto()
    DISCOVER = auto()
    """Ask the source for its partitions."""
    CHECK_CHECKPOINT = auto()
    """Repair the checkpoint and look for lost records, before anything is started."""
    START_SESSION = auto()
    """Start Spark, and with it the executors, if it is known where they may run."""
    CHECK_QUERY = auto()
    """Plan the query, so that a query that Spark refuses does not wait for its executors. The plan
    also shows whether it keeps state, and so where its executors may run."""
    REQUEST_EXECUTORS = auto()
    REPARTITION_STATE = auto()
    """Give the state the number of partitions that the spec asks for."""
    START_QUERY = auto()
    PROBE_CHECKPOINT = auto()
    """Find out whether the running query could write its logs."""
    COPY_DEAD_LETTER = auto()
    """Stop the query, copy the record that it fails over to the dead-letter topic, and remember to
    leave it out."""
    STOP_QUERY = auto()
    """Stop the query and keep the session."""
    STOP_SESSION = auto()
    """Stop the query and the session, which releases the executors; the driver keeps running."""
    EXIT_PROCESS = auto()
    """Exit; the kubelet starts a new process."""


@dataclass(frozen=True)
class NewFailure:
    """The query, or a step to it, has failed, or has to be stopped."""

    failure: Failure
    repeated: bool = False
    """The cause was looked at again, and has not gone."""


@dataclass(frozen=True)
class NewInterruption:
    """The query is not ready, and is left running: it may continue by itself."""

    failure: Failure


@dataclass(frozen=True)
class NewWarning:
    """What the running query does without has changed."""

    warning: Failure


@dataclass(frozen=True)
class QueryRestarted:
    """The query is started again."""

    after: Failure


Event = NewFailure | NewInterruption | NewWarning | QueryRestarted


class Decision(NamedTuple):
    """What is done, and what has happened."""

    state: State
    action: Action
    events: tuple[Event, ...] = ()


def first_state(history: History, policy: RestartPolicy, now: float) -> State:
    """The state of a new process, which has exited once more than `history` says."""
    if policy.allows_after(history.attempts):
        pause = policy.remaining_pause(history.uncommitted_seconds)
        return State(_paused(now + pause) if pause else Starting(), history)
    exited = Failure("DriverRestarted", "The driver process keeps exiting.")
    final = _after_max_attempts(exited, history.attempts, policy)
    return State(Failed(final, retry_at=None, attempts=history.attempts), history)


def _paused(until: float) -> BackingOff:
    message = (
        "The query of an earlier process has not committed what it wrote, and each attempt may "
        "write it again. The next one follows after a pause."
    )
    return BackingOff(Failure(stall_detection.NO_PROGRESS, message), until)


def decide(
    state: State, observation: Observation, policy: RestartPolicy, jitter: float
) -> Decision:
    """The next state and action, and what has happened; `jitter` in [0, 1) is for the back-off.

    >>> from penstock.driver.supervision.observation import nothing_observed
    >>> policy, seen = RestartPolicy(interval=1.0), nothing_observed(now=100.0)
    >>> decide(State(), seen, policy, 0.5).action.name
    'DISCOVER'
    >>> away = replace(seen, failure=Failure("BrokerUnreachable", "no answer"))
    >>> state, action, events = decide(State(), away, policy, 0.5)
    >>> action.name, state.retry_at, [event.failure.reason for event in events]
    ('STOP_QUERY', 100.5, ['BrokerUnreachable'])
    >>> decide(state, replace(seen, now=100.4), policy, 0.5).action.name
    'WAIT'
    >>> decide(state, replace(seen, now=100.6), policy, 0.5).action.name
    'DISCOVER'
    """
    since = observation.now if state.session_since is None else state.session_since
    state = replace(state, session_since=since if observation.has_session else None)
    state = _with_newer_limit(state, policy)
    if isinstance(state.phase, Running):
        run, history = run_progress.with_commits(state.phase, state.history, observation, policy)
        state = replace(state, phase=run, history=history, ran_at=observation.now)
    if observation.failure is not None:
        failure = _or_lost_executor(observation.failure, observation)
        return _on_failure(state, failure, observation, policy, jitter)
    if observation.completed:
        if isinstance(state.phase, Completed):
            return Decision(state, Action.WAIT)
        done = replace(state, phase=Completed(committed=state.committed))
        return Decision(done, Action.STOP_SESSION)
    match state.phase:
        case Running() as run if observation.has_query:
            return _while_running(run, state, observation, policy, jitter)
        case Running():  # to start with more cores, or to divide the state after a last batch
            return _while_starting(Starting(), state, observation, policy)
        case Starting() as starting:
            return _while_starting(starting, state, observation, policy)
        case BackingOff(failure, retry_at) if observation.now >= retry_at:
            return _while_starting(Starting(after=failure), state, observation, policy)
        case Failed() as failed:
            return _while_failed(failed, state, observation)
        case _:
            return Decision(state, Action.WAIT)


def _with_newer_limit(state: State, policy: RestartPolicy) -> State:
    """Starts again what restart.maxAttempts has ended, if it was raised since."""
    match state.phase:
        case Failed(failure, attempts=int(attempts)) if policy.allows_after(attempts):
            return replace(state, phase=Starting(after=failure))
        case _:
            return state


def _or_lost_executor(failure: Failure, observation: Observation) -> Failure:
    """A lost executor has no exception of its own: Spark only reports that a task failed."""
    if (
        failure.reason == TASK_FAILED
        and observation.has_session
        and observation.registered_cores < observation.requested_cores
    ):
        return replace(failure, reason=stall_detection.EXECUTOR_LOST)
    return failure


def _on_failure(
    state: State, failure: Failure, observation: Observation, policy: RestartPolicy, jitter: float
) -> Decision:
    """Decides when to try again: soon, after a recheck delay, or never.

    A spec that has committed an epoch can run, so whatever fails later may come back by itself. It
    is tried again for ever, unless the spec itself asks for an end.
    """
    before, known, now = state.phase, state.history, observation.now
    if isinstance(before, Failed) and before.retry_at is None:  # later failures change nothing
        return Decision(state, Action.STOP_SESSION)
    ran, had_executors = isinstance(before, Running), observation.has_session
    is_repeat = (
        failure.record is not None
        and failure.record in known.suspects
        and failure.reason != DEAD_LETTER_NOT_WRITTEN
    )
    if is_repeat:
        failure = replace(failure, message=f"{failure.message} Two runs have failed over it.")
    history = replace(
        known.with_suspect(failure.record),
        poison_failures=known.poison_failures + int(failure.maybe_poison),
        attempts=known.attempts + int(not failure.recoverable),
        stalls=known.stalls + int(failure.reason in stall_detection.STALLS),
        query_failures=known.query_failures + int(ran),
    )
    history, pause = _after_run(before, history, failure, now, policy)
    poisoned = failure.maybe_poison and (
        is_repeat or history.poison_failures >= policy.max_poison_failures
    )
    stalled = failure.reason in stall_detection.STALLS
    if is_repeat and policy.dead_letters_per_minute is not None:
        may_copy = observation.dead_letters < policy.dead_letters_per_minute
        if may_copy and not history.dead_letters_stopped:
            copying = Starting(after=failure, copies=True)
            state = replace(state, phase=copying, history=history, uncopied=failure)
            return Decision(state, Action.COPY_DEAD_LETTER, (NewFailure(failure),))
        history = replace(history, dead_letters_stopped=True)
        failure = _after_too_many(failure, policy.dead_letters_per_minute)
    phase: Starting | BackingOff | Failed
    if _attempts_are_used_up(history, failure, policy):
        attempts = history.failures_in_a_row
        failure = _after_max_attempts(failure, attempts, policy)
        phase, action = Failed(failure, None, attempts=attempts), Action.STOP_SESSION
    elif failure.reason == QUERY_NOT_STOPPED:
        phase, action = Starting(after=failure), Action.EXIT_PROCESS
    elif failure.reason in STORAGE_FAILURES and _keeps_session(state, observation, policy):
        failure = replace(failure, permanent=False)
        phase = BackingOff(failure, now + max(policy.volume_recheck, pause))
        action = Action.STOP_QUERY
    elif failure.permanent or poisoned:
        history = replace(history, rechecks=history.rechecks + int(had_executors))
        rechecks = history.rechecks if had_executors else 0
        retry_at = now + max(pause, policy.recheck_delay(rechecks))
        ends = failure.asked_for or not history.proved
        failure, action = replace(failure, permanent=ends), Action.STOP_SESSION
        phase = (
            Failed(failure, retry_at if failure.recoverable else None)
            if ends
            else BackingOff(failure, retry_at)
        )
    elif stalled and history.stalls % policy.max_stalls == 0:
        phase, action = Starting(after=failure), Action.EXIT_PROCESS
    else:
        waiting = not ran or not had_executors
        retry_at = now + max(pause, policy.backoff(history.attempts, jitter, waiting=waiting))
        phase = BackingOff(failure, retry_at)
        action = _next_rung(history, failure, policy, ran=ran)
    waits = failure.reason in _WAITED_FOR and failure == state.failure and not ran
    repeated = isinstance(before, Failed) or waits
    event = NewFailure(failure, repeated=repeated)
    return Decision(replace(state, phase=phase, history=history), action, (event,))


def _after_run(
    before: Phase, history: History, failure: Failure, now: float, policy: RestartPolicy
) -> tuple[History, float]:
    """The history after a run, and the pause until the next one.

    A run that has committed records is followed by the next one at once. Failures over a record
    have their own limit.
    """
    if not isinstance(before, Running) or before.uncommitted_since is None:
        return history, 0.0
    uncommitted = history.uncommitted_seconds + now - before.uncommitted_since
    fruitless = not before.fruitful and not failure.maybe_poison
    pause = policy.uncommitted_pause(uncommitted) if fruitless else 0.0
    return replace(history, uncommitted_seconds=uncommitted + pause), pause


def _keeps_session(state: State, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether the executors wait for the checkpoint's volume, which worked some minutes ago."""
    return (
        observation.has_session
        and state.ran_at is not None
        and observation.now - state.ran_at <= policy.volume_patience
    )


def _next_rung(history: History, failure: Failure, policy: RestartPolicy, *, ran: bool) -> Action:
    """How much of the stream is restarted.

    What fails again and again may be in the executors, such as a class that a passing error has
    left unusable, or in the driver's JVM. A new session also takes their place in the cluster.
    """
    if failure.reason in stall_detection.NEED_NEW_SESSION:
        return Action.STOP_SESSION
    if not ran or failure.maybe_poison or failure.reason in stall_detection.DETECTED:
        return Action.STOP_QUERY
    if history.query_failures % policy.new_process_after == 0:
        return Action.EXIT_PROCESS
    if history.query_failures % policy.new_session_after == 0:
        return Action.STOP_SESSION
    return Action.STOP_QUERY


def _attempts_are_used_up(history: History, failure: Failure, policy: RestartPolicy) -> bool:
    return (
        not policy.allows_after(history.failures_in_a_row)
        and (failure.maybe_poison or not failure.recoverable)
        and (history.proved or not failure.permanent)
    )


def _after_max_attempts(failure: Failure, attempts: int, policy: RestartPolicy) -> Failure:
    return replace(
        failure,
        permanent=True,
        recoverable=False,
        asked_for=True,
        message=f"{failure.message} (This was failure {attempts} in a row, and "
        f"restart.maxAttempts is {policy.max_attempts}. Fix the cause, then delete the "
        "driver pod or raise the limit to start again.)",
    )


def _after_too_many(failure: Failure, dead_letters: int) -> Failure:
    reason = "TooManyDeadLetters"
    return replace(
        failure,
        reason=reason,
        message=f"More than {dead_letters} records failed within a minute, or one after the other "
        "(deadLetters.maxPerMinute), so no more become dead letters: "
        f"{failure.message} {REMEDIES[reason].action}",
    )


def _while_failed(failed: Failed, state: State, observation: Observation) -> Decision:
    """Looks again, once it is time for it, by the steps that need no executors."""
    if failed.retry_at is not None and observation.now < failed.retry_at:
        return Decision(state, Action.WAIT)
    if observation.has_query:
        return Decision(state, Action.STOP_SESSION)
    if failed.retry_at is None:
        return Decision(state, Action.WAIT)
    if observation.partitions is None:
        return Decision(state, Action.DISCOVER)
    checked_at = failed.checkpoint_checked_at
    if checked_at is None:
        checked = replace(failed, checkpoint_checked_at=observation.now)
        return Decision(replace(state, phase=checked), Action.CHECK_CHECKPOINT)
    starting = Starting(after=failed.failure, checkpoint_checked_at=checked_at)
    return Decision(replace(state, phase=starting), Action.WAIT)


def _while_starting(
    starting: Starting, state: State, observation: Observation, policy: RestartPolicy
) -> Decision:
    """The next step on the way to a running query."""
    if starting.copies:  # and nothing has failed since
        history = replace(state.history, poison_failures=0)
        state = replace(state, history=history, uncopied=None)
        starting = replace(starting, copies=False)

    def step(action: Action, phase: Starting = starting) -> Decision:
        return Decision(replace(state, phase=phase), action)

    now, checked_at = observation.now, starting.checkpoint_checked_at
    unchecked = replace(starting, checkpoint_checked_at=None, query_checked=False)
    if observation.has_query:  # two queries would write to one checkpoint
        return step(Action.STOP_QUERY)
    if observation.partitions is None:
        return step(Action.DISCOVER, unchecked)
    if checked_at is None:
        return step(Action.CHECK_CHECKPOINT, replace(unchecked, checkpoint_checked_at=now))
    if state.uncopied is not None:
        return step(Action.COPY_DEAD_LETTER, replace(starting, copies=True))
    if not observation.has_session:
        return step(Action.START_SESSION, replace(starting, query_checked=False))
    if observation.requested_cores > observation.desired_cores:
        # The query before needed more executors, which Spark does not give back.
        return step(Action.STOP_SESSION, unchecked)
    if not starting.query_checked:
        return step(Action.CHECK_QUERY, replace(starting, query_checked=True))
    if observation.requested_cores < observation.desired_cores:
        return step(Action.REQUEST_EXECUTORS)
    if not _has_cores_to_start(state, observation, policy):
        return step(Action.WAIT)
    if observation.repartitions_state:
        history = replace(state.history, divisions=state.history.divisions + 1)
        state = replace(state, phase=starting, history=history)
        return Decision(state, Action.REPARTITION_STATE)
    if now - checked_at > _CHECK_SECONDS:
        # Meanwhile records may have been deleted, or a topic recreated.
        return step(Action.WAIT, replace(starting, checkpoint_checked_at=None))
    after, history = starting.after, state.history
    history = replace(
        history,
        restarts=history.restarts + int(after is not None),
        divisions=0,
        unread_partitions=history.unread_partitions.in_new_run(),
    )
    run = Running.begin(observation, after, policy.mode)
    events = () if after is None else (QueryRestarted(after),)
    return Decision(replace(state, phase=run, history=history), Action.START_QUERY, events)


def _has_cores_to_start(state: State, observation: Observation, policy: RestartPolicy) -> bool:
    """Whether the query may start: a micro-batch also runs with fewer cores, after a while."""
    cores = observation.registered_cores
    if cores >= observation.desired_cores:
        return True
    waited = 0.0 if state.session_since is None else observation.now - state.session_since
    return not policy.mode.has_long_running_tasks and cores > 0 and waited > policy.cores_patience


def _while_running(
    run: Running, state: State, observation: Observation, policy: RestartPolicy, jitter: float
) -> Decision:
    run, history = run_progress.with_activity(run, state.history, observation, policy)
    history = replace(
        history, unread_partitions=history.unread_partitions.observe(observation, policy)
    )

    def fail(failure: Failure) -> Decision:
        failed = replace(state, phase=run, history=history)
        return _on_failure(failed, failure, observation, policy, jitter)

    failure = (
        stall_detection.clock_set_back(run, observation)
        or stall_detection.executor_lost(run, observation, policy)
        or stall_detection.commits_stuck(observation, policy)
    )
    if failure is not None:
        return fail(failure)
    registered, desired = observation.registered_cores, observation.desired_cores
    lacks_cores = registered < stall_detection.needed_cores(run.slots, observation, policy)
    run = replace(run, cores=registered, wall_clock=observation.wall_clock)
    run, events = _with_interruption(run, history, observation, policy)
    action = Action.WAIT
    if observation.requested_cores < desired:
        action = Action.REQUEST_EXECUTORS
    elif lacks_cores:
        run = replace(run, cores_complete_since=observation.now)
        failure = stall_detection.cores_lost(run, observation, policy)
    elif observation.partitions_added and registered >= desired:
        return Decision(
            replace(state, phase=Starting(), history=history), Action.STOP_QUERY, events
        )
    else:
        unread_partitions, failure = history.unread_partitions.restart(run.committed_at, policy)
        history = replace(history, unread_partitions=unread_partitions)
        failure = failure or stall_detection.stall(run, history, observation, policy)
    if failure is not None:
        return fail(failure)
    if action is Action.WAIT and stall_detection.is_probe_due(run, observation, policy):
        run, action = replace(run, probed_at=observation.now), Action.PROBE_CHECKPOINT
    return Decision(replace(state, phase=run, history=history), action, events)


def _with_interruption(
    run: Running, history: History, observation: Observation, policy: RestartPolicy
) -> tuple[Running, tuple[Event, ...]]:
    """Notes that the source does not answer, that the query makes no progress or leaves partitions
    out, and what it does without. Each is an event when its reason changes.
    """
    late = stall_detection.late(run, history, observation, policy)
    left_out = history.unread_partitions.interruption(run.committed_at, policy)
    if late is not None or left_out is not None:
        run = replace(run, healthy_since=None)
    if observation.source_outage is not None:
        run = replace(run, source_answers_since=observation.now)
    interruption, warning = observation.source_outage or late or left_out, observation.warning
    events: list[Event] = []
    if interruption is not None and interruption.reason != run.interruption:
        events.append(NewInterruption(interruption))
    if warning is not None and warning.reason != run.warning:
        events.append(NewWarning(warning))
    return replace(
        run,
        interruption=None if interruption is None else interruption.reason,
        warning=None if warning is None else warning.reason,
    ), tuple(events)
