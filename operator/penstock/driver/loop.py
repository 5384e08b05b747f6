"""The supervision loop: observe, let the supervisor decide, execute the action, report."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from penstock.api.modes import Mode
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.background_threads import repeat_in_background
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import lags
from penstock.driver.logs import log_event
from penstock.driver.reporting.http_server import Health
from penstock.driver.reporting.metric_sampler import Sampler
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.report import ReportBuilder
from penstock.driver.spark.planning_wait import PlanningWait
from penstock.driver.supervision.history import History, NotedHistory
from penstock.driver.supervision.next_action import Action, Event, NewWarning, decide, first_state
from penstock.driver.supervision.observation import Observation, nothing_observed
from penstock.driver.supervision.phases import BackingOff, Completed, Starting, State
from penstock.driver.supervision.query_runtime import QueryRuntime
from penstock.driver.supervision.reported_state import describe, describe_step, is_ready
from penstock.driver.supervision.restart_policy import RestartPolicy

_INTERVAL_SECONDS = 0.25
# After a step, so that the next one follows at once, and one that is asked for again and again
# takes no core.
_STEP_PAUSE_SECONDS = 0.02
# A stop right after a commit leaves almost nothing to replay. A stop does not wait longer than this
# for one: the pod's grace period is naming.GRACE_SECONDS.
_MAX_COMMIT_WAIT_SECONDS = 10.0
_COMMIT_SECONDS = 1.0
_STORE_RETRY_SECONDS = 10.0
# How long the user's code, plugins and catalogs may take in a step, in seconds, while the JVM
# answers (hang_guard.py): a plan may read a table, and a module may load a model.
_LONG_STEP_SECONDS = 3600.0
# If it were ended too early, the next driver would begin it again, for ever.
_REPARTITIONING_SECONDS = 24 * 3600.0
# The deadline of a rollout does not end them: the second one may follow the loss of a node.
_PROTECTED_DIVISIONS = 2
# Steps that may take longer than RestartPolicy.step_timeout. The first DISCOVER waits for the JVM,
# which may have to fetch dependencies.
_STEP_TIMEOUTS = {
    Action.START_SESSION: _LONG_STEP_SECONDS,
    # A file server with thousands of files of state; and a thousand partitions, with which the
    # deadlines of its questions to Kafka grow.
    Action.CHECK_CHECKPOINT: _LONG_STEP_SECONDS,
    Action.CHECK_QUERY: _LONG_STEP_SECONDS,
    Action.REPARTITION_STATE: _REPARTITIONING_SECONDS,
    Action.START_QUERY: _LONG_STEP_SECONDS,
    Action.DISCOVER: 300.0,
}
_LOOK_SECONDS = 1.0
_REPLACED = "The edited query replaces the one that ran"


class DriverMustExit(Exception):
    """The process must exit, for the reason in `failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class DriverOutput:
    """What the process says of its query: probes, metrics and reports."""

    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    publish: Callable[[DriverReport], None] = lambda report: None


class Loop:
    """Keeps one query running until it is stopped, or until an edited one takes its place."""

    def __init__(
        self,
        runtime: QueryRuntime,
        policy: RestartPolicy,
        spec_hash: str,
        output: DriverOutput,
        noted_history: NotedHistory | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self._runtime = runtime
        self._jvm = runtime.context.jvm
        self._followed = runtime.context.followed
        self._policy = policy
        self._reports = ReportBuilder(spec_hash, output.metrics)
        self._health = output.health
        self._metrics = output.metrics
        self._publish = output.publish
        self._noted_history = noted_history
        self._stored: History | None = None
        self._store_at = 0.0
        self._sampler = sampler
        self.stopping = False
        """The query, and perhaps the session, is being stopped."""
        now = time.monotonic()
        known = History() if noted_history is None else noted_history.read()
        self._state = first_state(known, policy, now)
        self._observation = nothing_observed(now)
        self._warning: Failure | None = None

    @property
    def needs_executors(self) -> bool:
        """Whether the query does not run, and is to."""
        return isinstance(self._state.phase, Starting | BackingOff)

    def run(self, stop: threading.Event) -> None:
        """Returns after a clean stop; raises DriverMustExit if the process must exit.

        The session outlives a query that is replaced.
        """
        try:
            self._run(stop)
        finally:
            self._runtime.close()

    def _run(self, stop: threading.Event) -> None:
        failure: Failure | None = None
        self._store(self._state.history.for_next_process(self._policy))
        if self._state.failure is not None:
            self._reports.record_failure(self._state.failure)
        while not stop.is_set() and self._followed.next_document is None:
            self._health.last_iteration_at = time.monotonic()
            action, failure = self._iterate(failure)
            if failure is None:
                stop.wait(_INTERVAL_SECONDS if action is Action.WAIT else _STEP_PAUSE_SECONDS)
        self.stopping = True
        if self._sampler is not None:
            self._sampler.stop()
        self._stop(keep_session=not stop.is_set())
        self.note_clean_stop()

    def note_clean_stop(self) -> None:
        """Stores what the next process must know. Also for a thread that ends the process while a
        step runs before a query does."""
        self._store(self._state.history.after_clean_stop(self._policy))

    def _store(self, history: History) -> None:
        """Stores what a later process must know. A full disk stops nothing: it is tried again."""
        noted, now = self._noted_history, time.monotonic()
        if noted is None or history == self._stored or now < self._store_at:
            return
        try:
            noted.write(history)
        except DriverError as error:
            if self._store_at == 0.0:
                log_event("the supervisor's history was not stored", 30, error=str(error))
            self._store_at = time.monotonic() + _STORE_RETRY_SECONDS
        else:
            self._stored, self._store_at = history, 0.0

    def _iterate(self, failure: Failure | None) -> tuple[Action, Failure | None]:
        """One iteration; returns its action, and its failure, for the next iteration."""
        self._policy = self._policy.with_restart(self._followed.live.restart)
        try:
            observation = self._observe()
        except Exception as error:
            unseen, now = self._classify(error), time.monotonic()
            waits = self._state.retry_at is not None and now < self._state.retry_at
            # It counts once, however often it is seen until the next attempt, and not at all when
            # nothing is left to do.
            ignored = waits or isinstance(self._state.phase, Completed)
            observation = replace(self._observation, now=now, failure=None if ignored else unseen)
        if failure is not None:
            observation = replace(observation, failure=failure)
        self._observation = observation
        jitter = random.random()  # noqa: S311
        self._state, action, events = decide(self._state, observation, self._policy, jitter)
        exits = action is Action.EXIT_PROCESS
        self._store(self._state.history.for_next_process(self._policy, counted=exits))
        self._record(events, action)
        for repair in self._runtime.take_repair_plans():
            self._reports.record_repair(repair)
        self._health.ready = is_ready(self._state)
        self._report(*describe(self._state, observation, self._policy), observation)
        if action is Action.WAIT:
            return action, None
        self._health.iteration_timeout = _STEP_TIMEOUTS.get(action, self._policy.step_timeout)
        self._health.step = action.name.lower()
        try:
            with self._watched(action):
                self._execute(action)
        except Exception as error:
            return action, self._classify(error)
        finally:
            self._health.last_iteration_at = time.monotonic()
            self._health.iteration_timeout, self._health.step = self._policy.step_timeout, ""
        return action, None

    @contextlib.contextmanager
    def _watched(self, action: Action) -> Iterator[None]:
        """Reports what a long step waits for, while it runs in this thread."""
        thread, began = threading.get_ident(), time.monotonic()

        def look() -> None:
            try:
                self._look_at_step(action, thread, time.monotonic() - began)
            except Exception as error:
                log_event("the step was not looked at", at=type(error).__name__)

        if action not in _STEP_TIMEOUTS:
            yield
            return
        with repeat_in_background(look, _LOOK_SECONDS, "step"):
            yield

    def _look_at_step(self, action: Action, thread: int, seconds: float) -> None:
        is_planning = action is Action.CHECK_QUERY
        wait = self._runtime.look_at_plan(thread) if is_planning else PlanningWait()
        message = describe_step(action, seconds, wait.what)
        if message is not None:
            state = QueryState.WAITING_FOR_CORES if wait.lacks_executor else QueryState.STARTING
            self._health.step = message
            # One that fails again and again is to be given up like any edit.
            begun = self._state.history.divisions
            divides = action is Action.REPARTITION_STATE and begun <= _PROTECTED_DIVISIONS
            self._report(state, message, self._observation, repartitions_state=divides)

    def _observe(self) -> Observation:
        if self._jvm.exit_failure is not None:
            raise DriverMustExit(self._jvm.exit_failure)
        behind = frozenset() if self._sampler is None else self._sampler.positions_behind
        observation = self._runtime.observe(behind)
        self._observe_commits()
        self._warning = self._runtime.take_warning()
        return observation

    def _record(self, events: Iterable[Event], action: Action) -> None:
        """Records what was found in one look, of which the status keeps what comes last.

        A warning explains a failure: an executor that ran out of heap, the one that was lost. But
        nothing takes the place of the failure that ends a stream.
        """
        warnings = [] if self._warning is None else [NewWarning(self._warning)]
        self._warning = None
        failure = self._state.failure
        ends = failure is not None and failure.permanent
        self._reports.record([*warnings, *events] if ends else [*events, *warnings], action)

    def _observe_commits(self) -> None:
        for commit, offset_range in self._runtime.progress.new_commits():
            self._metrics.observe_commit(commit, offset_range)
        offsets = self._runtime.offsets()
        self._metrics.set_offsets(offsets)
        self._metrics.set_held(self._runtime.held, time.monotonic())
        # Without a query, nothing is added to what the last one may have written.
        if offsets and self._runtime.has_query and self._policy.mode is Mode.CONTINUOUS:
            self._metrics.set_records_in_doubt(sum(lags(*offsets).values()))

    def _execute(self, action: Action) -> None:
        log_event("next step", step=action.name.lower())
        if action is Action.EXIT_PROCESS:
            assert self._state.failure is not None
            raise DriverMustExit(self._state.failure)
        runtime = self._runtime
        steps = {
            Action.DISCOVER: runtime.discover_partitions,
            Action.CHECK_CHECKPOINT: runtime.check_checkpoint,
            Action.START_SESSION: runtime.start_session,
            Action.CHECK_QUERY: runtime.check_query,
            Action.REQUEST_EXECUTORS: runtime.request_executors,
            Action.REPARTITION_STATE: runtime.repartition_state,
            Action.START_QUERY: runtime.start_query,
            Action.PROBE_CHECKPOINT: runtime.probe_checkpoint,
            Action.COPY_DEAD_LETTER: self._copy_dead_letter,
            Action.STOP_QUERY: runtime.stop_query,
            Action.STOP_SESSION: runtime.forget_partitions_and_stop,
        }
        steps[action]()

    def _copy_dead_letter(self) -> None:
        assert self._state.uncopied is not None
        self._runtime.copy_dead_letter(self._state.uncopied)

    def _classify(self, error: Exception) -> Failure:
        """The failure behind an exception; raises DriverMustExit if the JVM is gone."""
        if isinstance(error, DriverMustExit):
            raise error
        if self._jvm.is_gone_after(error):
            assert self._jvm.exit_failure is not None
            raise DriverMustExit(self._jvm.exit_failure) from error
        return classify_exception(error)

    def _report(
        self,
        state: QueryState,
        message: str,
        observation: Observation,
        *,
        repartitions_state: bool = False,
    ) -> None:
        commit = self._runtime.progress.newest
        report = self._reports.build(
            state,
            message,
            self._state,
            observation,
            self._runtime.requested_size,
            self._runtime.offsets(),
            None if commit is None else commit.at,
            repartitions_state=repartitions_state,
        )
        self._metrics.set_report(report)
        self._publish(report)

    def _stop(self, *, keep_session: bool) -> None:
        """Stops the query, then the session and its executors. The caller ends the JVM."""
        log_event("stopping")
        commits = self._health.ready
        self._health.ready = False
        self._health.iteration_timeout = self._policy.step_timeout
        state_and_message = (QueryState.STOPPING, "")
        if keep_session:
            state_and_message = (QueryState.STARTING, _REPLACED)
            self._state = State(history=self._state.history)
        self._report(*state_and_message, self._observation)
        if commits:
            self._runtime.wait_for_commit(_commit_wait(self._policy))
        if keep_session:
            self._runtime.end_query()
        else:
            self._runtime.stop_session()
        self._observe_commits()
        epoch = self._runtime.progress.committed_epoch()
        has_session = self._runtime.has_session
        last = replace(self._observation, epoch=epoch, has_query=False, has_session=has_session)
        # Users who move a stream start its successor at these offsets.
        self._report(*state_and_message, last)
        log_event("stopped", epoch=epoch)


def _commit_wait(policy: RestartPolicy) -> float:
    """How many seconds a stop waits for a commit.

    An epoch ends when its interval is over, and is not worth a wait if that is long. A batch ends
    when its work is done, whatever its trigger's interval, and in real-time mode at once.
    """
    if policy.mode is not Mode.CONTINUOUS:
        return _MAX_COMMIT_WAIT_SECONDS
    within_limit = policy.interval <= _MAX_COMMIT_WAIT_SECONDS
    return policy.interval + _COMMIT_SECONDS if within_limit else 0.0
