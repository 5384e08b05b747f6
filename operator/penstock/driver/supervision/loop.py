"""The loop: look, ask the supervisor, do what it says, report. It decides nothing itself."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.failures import Trouble
from penstock.driver.java_exceptions import understand
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.offsets import lag
from penstock.driver.logs import say
from penstock.driver.reporting.http_server import Health
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.supervision.failure_count import Attempts
from penstock.driver.supervision.report_builder import Account
from penstock.driver.supervision.restart_policy import Policy
from penstock.driver.supervision.runtime import Engine, ended
from penstock.driver.supervision.state import Sight, State
from penstock.driver.supervision.supervisor import Action, decide, describe, first_state, is_ready

_TICK = 0.25
# A stop right after a commit leaves next to nothing to replay; longer than this it is not put off,
# within the kubelet's grace period of 30 s.
_LONGEST_WAIT_FOR_A_COMMIT = 10.0
_COMMIT_SECONDS = 1.0
# Seconds that a step may take, where Policy.step is not enough. The first look waits for the JVM,
# which may have to fetch dependencies.
_LONG_STEPS = {Action.START_SESSION: 240.0, Action.DISCOVER: 300.0, Action.START_QUERY: 120.0}


class GivenUp(Exception):
    """The process should end: the reason is in `trouble`."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class Loop:
    """Keeps one query running until it is told to stop."""

    def __init__(
        self,
        engine: Engine,
        jvm: Jvm,
        policy: Policy,
        spec_hash: str,
        health: Health,
        metrics: Metrics,
        publish: Callable[[DriverReport], None],
        attempts: Attempts | None = None,
    ) -> None:
        self._engine = engine
        self._jvm = jvm
        self._policy = policy
        self._account = Account(spec_hash, metrics)
        self._health = health
        self._metrics = metrics
        self._publish = publish
        self._attempts = attempts
        self._state = State() if attempts is None else first_state(attempts.read(), policy)
        self._sight = Sight(now=time.monotonic())

    def run(self, stop: threading.Event) -> None:
        """Returns after a clean stop; raises GivenUp if the process must end."""
        trouble: Trouble | None = None
        self._keep_attempts()
        if self._state.trouble is not None:
            self._account.note(self._state.trouble)
        while not stop.is_set():
            self._health.turned_at = time.monotonic()
            trouble = self._turn(trouble)
            if trouble is None:
                stop.wait(_TICK)
        self._stop()
        if self._attempts is not None:
            self._attempts.forget()

    def _keep_attempts(self) -> None:
        if self._attempts is not None:
            self._attempts.write(self._state.attempts)

    def _turn(self, trouble: Trouble | None) -> Trouble | None:
        """One turn; what goes wrong in it is the next turn's trouble."""
        try:
            sight = self._look()
        except Exception as error:
            sight = replace(self._sight, now=time.monotonic(), trouble=self._understood(error))
        if trouble is not None:
            sight = replace(sight, trouble=trouble)
        self._sight = sight
        before = self._state
        jitter = random.random()  # noqa: S311
        self._state, action = decide(before, sight, self._policy, jitter)
        if self._state.attempts != before.attempts:
            self._keep_attempts()
        self._account.changed(before, self._state, action)
        for repair in self._engine.take_repairs():
            self._account.mended(repair)
        self._report(sight)
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

    def _look(self) -> Sight:
        if self._jvm.why_ended is not None:
            raise GivenUp(self._jvm.why_ended)
        engine = self._engine
        trouble = engine.look_for_trouble()
        wanted, requested = engine.wanted, engine.requested
        ready, cores = engine.registered()
        pulse = engine.pulse()
        self._see_commits()
        return Sight(
            now=time.monotonic(),
            trouble=trouble,
            partitions=engine.partitions,
            cores_wanted=wanted.cores if wanted else 0,
            cores_requested=requested.cores if requested else 0,
            executors=ready,
            cores=cores,
            session=engine.has_session,
            query=engine.has_query,
            epoch=engine.epoch(),
            planned=engine.planned(),
            tasks=pulse.tasks,
            idle=pulse.idle,
            busy=pulse.busy,
            flowing=pulse.flowing,
            completed=engine.completed,
            away=engine.away,
            outgrown=engine.outgrown,
        )

    def _see_commits(self) -> None:
        for commit, stretch in self._engine.news():
            self._metrics.committed(commit, stretch)
        offsets = self._engine.offsets()
        if offsets is not None:
            self._metrics.offsets(*offsets)

    def _do(self, action: Action) -> None:
        say("next step", step=action.name.lower())
        engine = self._engine
        match action:
            case Action.DISCOVER:
                engine.discover()
            case Action.START_SESSION:
                engine.start_session()
            case Action.CHECK_QUERY:
                engine.check_query()
                notice = engine.take_notice()
                if notice is not None:
                    self._account.note(notice)
            case Action.REQUEST_EXECUTORS:
                engine.request_executors()
            case Action.START_QUERY:
                engine.start_query()
            case Action.STOP_QUERY:
                engine.stop_query()
            case Action.LET_GO:
                engine.forget_partitions()
                engine.let_go()
            case Action.GIVE_UP:
                assert self._state.trouble is not None
                raise GivenUp(self._state.trouble)
            case Action.WAIT:
                pass

    def _understood(self, error: Exception) -> Trouble:
        """The trouble behind an exception; a JVM that is gone ends the process instead."""
        if isinstance(error, GivenUp):
            raise error
        if ended(self._jvm, error):
            assert self._jvm.why_ended is not None
            raise GivenUp(self._jvm.why_ended) from error
        return understand(error)

    def _report(self, sight: Sight) -> None:
        self._health.ready = is_ready(self._state, sight, self._policy)
        self._tell(*describe(self._state, sight, self._policy), sight)

    def _tell(self, state: QueryState, message: str, sight: Sight) -> None:
        engine, offsets = self._engine, self._engine.offsets()
        behind = lag(*offsets) if offsets else None
        report = self._account.report(state, message, self._state, sight, engine.requested, behind)
        self._metrics.show(report)
        self._publish(report)

    def _stop(self) -> None:
        """Everything in order: first the query, then its executors, then the JVM."""
        say("stopping")
        commits = self._health.ready
        self._health.ready = False
        self._health.may_take = self._policy.step
        self._tell(QueryState.STOPPING, "", self._sight)
        interval = self._policy.interval
        if commits and interval <= _LONGEST_WAIT_FOR_A_COMMIT:
            self._engine.await_commit(interval + _COMMIT_SECONDS)
        self._engine.let_go()
        say("stopped", epoch=self._engine.epoch())
