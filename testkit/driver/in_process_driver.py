"""A driver that runs in the test's own process, and the numbered traffic around it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.environment import Environment, LocalEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes_api import Api
from penstock.driver.reporting.http_server import Health
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.supervision.loop import Loop
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.runtime import QueryRuntime
from testkit.wait import PATIENCE_SECONDS, wait_for


class InProcessDriver:
    """A driver's loop in a thread, and every report it made."""

    def __init__(
        self,
        stream: ContinuousStream,
        jvm: Jvm,
        environment: Environment,
        policy: RestartPolicy,
        api: Api | None = None,
    ) -> None:
        self.reports: list[DriverReport] = []
        self.health, self.metrics = Health(), Metrics()
        self.runtime = QueryRuntime(stream, environment, jvm, api)
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._loop = Loop(
            self.runtime, jvm, policy, "hash", self.health, self.metrics, self.reports.append
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._loop.run(self.stop)
        except BaseException as error:
            self.error = error
            self.runtime.stop_session()

    @property
    def last(self) -> DriverReport:
        """The newest report."""
        return (
            self.reports[-1]
            if self.reports
            else DriverReport(spec_hash="", state=QueryState.STARTING)
        )

    def wait(self, what: str, holds: Callable[[DriverReport], bool]) -> DriverReport:
        """The newest report, once it is so."""
        wait_for(
            f"{what}; the last report: {self.last!r}",
            lambda: self.error is not None or holds(self.last),
        )
        if self.error is not None:
            raise self.error
        return self.last

    def wait_failure(self, reason: str) -> DriverReport:
        """Once its last failure has this reason."""
        return self.wait(
            f"failed for {reason}",
            lambda report: report.last_failure is not None and report.last_failure.reason == reason,
        )

    def wait_ready(self) -> DriverReport:
        """Once its query has committed an epoch."""
        wait_for("ready", lambda: self.health.ready)
        return self.last


@contextlib.contextmanager
def running(
    stream: ContinuousStream,
    jvm: Jvm,
    where: Path | Environment,
    policy: RestartPolicy | None = None,
    api: Api | None = None,
) -> Iterator[InProcessDriver]:
    """A driver for the length of the block, stopped in good order at its end."""
    environment = LocalEnvironment(where) if isinstance(where, Path) else where
    policy = policy or replace(RestartPolicy.from_spec(stream.spec), backoff_base=0.1)
    it = InProcessDriver(stream, jvm, environment, policy, api)
    try:
        yield it
    finally:
        it.stop.set()
        it.thread.join(PATIENCE_SECONDS)
        assert not it.thread.is_alive()
