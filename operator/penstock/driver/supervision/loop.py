"""The loop: look, ask the supervisor, do what it says, report. It decides nothing itself."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.failures import Failure
from penstock.driver.java_exceptions import classify_exception
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.offsets import lag
from penstock.driver.logs import say
from penstock.driver.reporting.http_server import Health
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.supervision.failure_count import Attempts
from penstock.driver.supervision.report_builder import Account
from penstock.driver.supervision.restart_policy import Policy
from penstock.driver.supervision.runtime import QueryRuntime, ended
from penstock.driver.supervision.state import Observation, State
from penstock.driver.supervision.supervisor import Action, decide, describe, first_state, is_ready

_TICK = 0.25
# A stop right after a commit leaves next to nothing to replay; longer than this it is not put off,
# within the kubelet's grace period of 30 s.
_LONGEST_WAIT_FOR_A_COMMIT = 10.0
_COMMIT_SECONDS = 1.0
# Seconds that a step may take, where Policy.step is not enough. The first look waits for the JVM,
# which may have to fetch dependencies.
_LONG_STEPS = {Action.START_SESSION: 240.0, Action.DISCOVER: 300.0, Action.START_QUERY: 120.0}


class DriverMustExit(Exception):
    """The process should end: the reason is in `failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Loop:
    """Keeps one query running until it is told to stop."""

    def __init__(
        self,
        runtime: QueryRuntime,
        jvm: Jvm,
        policy: Policy,
        spec_hash: str,
        health: Health,
        metrics: Metrics,
        publish: Callable[[DriverReport], None],
        attempts: Attempts | None = None,
    ) -> None:
        self._runtime = runtime
        self._jvm = jvm
        self._policy = policy
        self._account = Account(spec_hash, metrics)
        self._health = health
        self._metrics = metrics
        self._publish = publish
        self._attempts = attempts
        self._state = State() if attempts is None else first_state(attempts.read(), policy)
        self._observation = Observation(now=time.monotonic())

    def run(self, stop: threading.Event) -> None:
        """Returns after a clean stop; raises GivenUp if the process must end."""
        failure: Failure | None = None
        self._keep_attempts()
        if self._state.failure is not None:
            self._account.note(self._state.failure)
        while not stop.is_set():
            self._health.turned_at = time.monotonic()
            failure = self._turn(failure)
            if failure is None:
                stop.wait(_TICK)
        self._stop()
        if self._attempts is not None:
            self._attempts.forget()

    def _keep_attempts(self) -> None:
        if self._attempts is not None:
            self._attempts.write(self._state.attempts)

    def _turn(self, failure: Failure | None) -> Failure | None:
        """One turn; what goes wrong in it is the next turn's trouble."""
        try:
            observation = self._look()
        except Exception as error:
            observation = replace(
                self._observation, now=time.monotonic(), failure=self._understood(error)
            )
        if failure is not None:
            observation = replace(observation, failure=failure)
        self._observation = observation
        before = self._state
        jitter = random.random()  # noqa: S311
        self._state, action = decide(before, observation, self._policy, jitter)
        if self._state.attempts != before.attempts:
            self._keep_attempts()
        self._account.changed(before, self._state, action)
        for repair in self._runtime.take_repair_plans():
            self._account.repaired(repair)
        self._report(observation)
        if action is Action.WAIT:
            return None
        self._health.may_take = _LONG_STEPS.get(action, self._policy.step)
        try:
            self._do(action)
        except Exception as error:
            return self._understood(error)
        finally:
            self._health.turned_at = time.monotonic()
            self._health.may_take = self._policy.step
        return None

    def _look(self) -> Observation:
        if self._jvm.why_ended is not None:
            raise DriverMustExit(self._jvm.why_ended)
        runtime = self._runtime
        failure = runtime.look_for_failure()
        wanted, requested = runtime.wanted, runtime.requested
        ready, cores = runtime.registered()
        activity = runtime.activity()
        self._see_commits()
        return Observation(
            now=time.monotonic(),
            failure=failure,
            partitions=runtime.partitions,
            cores_wanted=wanted.cores if wanted else 0,
            cores_requested=requested.cores if requested else 0,
            executors=ready,
            cores=cores,
            session=runtime.has_session,
            query=runtime.has_query,
            epoch=runtime.epoch(),
            planned=runtime.planned(),
            tasks=activity.tasks,
            idle=activity.idle,
            busy=activity.busy,
            flowing=activity.flowing,
            completed=runtime.completed,
            away=runtime.away,
            outgrown=runtime.outgrown,
        )

    def _see_commits(self) -> None:
        for commit, offset_range in self._runtime.news():
            self._metrics.committed(commit, offset_range)
        offsets = self._runtime.offsets()
        if offsets is not None:
            self._metrics.offsets(*offsets)

    def _do(self, action: Action) -> None:
        say("next step", step=action.name.lower())
        runtime = self._runtime
        match action:
            case Action.DISCOVER:
                runtime.discover()
            case Action.START_SESSION:
                runtime.start_session()
            case Action.CHECK_QUERY:
                runtime.check_query()
                notice = runtime.take_notice()
                if notice is not None:
                    self._account.note(notice)
            case Action.REQUEST_EXECUTORS:
                runtime.request_executors()
            case Action.START_QUERY:
                runtime.start_query()
            case Action.STOP_QUERY:
                runtime.stop_query()
            case Action.STOP_SESSION:
                runtime.forget_partitions()
                runtime.let_go()
            case Action.EXIT_PROCESS:
                assert self._state.failure is not None
                raise DriverMustExit(self._state.failure)
            case Action.WAIT:
                pass

    def _understood(self, error: Exception) -> Failure:
        """The trouble behind an exception; a JVM that is gone ends the process instead."""
        if isinstance(error, DriverMustExit):
            raise error
        if ended(self._jvm, error):
            assert self._jvm.why_ended is not None
            raise DriverMustExit(self._jvm.why_ended) from error
        return classify_exception(error)

    def _report(self, observation: Observation) -> None:
        self._health.ready = is_ready(self._state, observation, self._policy)
        self._tell(*describe(self._state, observation, self._policy), observation)

    def _tell(self, state: QueryState, message: str, observation: Observation) -> None:
        runtime, offsets = self._runtime, self._runtime.offsets()
        behind = lag(*offsets) if offsets else None
        report = self._account.report(
            state, message, self._state, observation, runtime.requested, behind
        )
        self._metrics.show(report)
        self._publish(report)

    def _stop(self) -> None:
        """Everything in order: first the query, then its executors, then the JVM."""
        say("stopping")
        commits = self._health.ready
        self._health.ready = False
        self._health.may_take = self._policy.step
        self._tell(QueryState.STOPPING, "", self._observation)
        interval = self._policy.interval
        if commits and interval <= _LONGEST_WAIT_FOR_A_COMMIT:
            self._runtime.await_commit(interval + _COMMIT_SECONDS)
        self._runtime.let_go()
        say("stopped", epoch=self._runtime.epoch())
