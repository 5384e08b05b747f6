"""Runs a driver's loop in the test's own process."""

from __future__ import annotations

import contextlib
import faulthandler
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark import SparkContext

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.checkpoint.progress import ProgressReader
from penstock.driver.context import DriverContext
from penstock.driver.environment import Environment, LocalEnvironment
from penstock.driver.jvm import Jvm, fast_start_options
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.followed_stream import FollowedStream, LiveFields
from penstock.driver.loop import DriverOutput, Loop
from penstock.driver.reporting.metric_sampler import Sampler
from penstock.driver.supervision.query_runtime import QueryRuntime
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.kafka.topics import total
from testkit.wait import wait_for

# A stop waits for the step that runs, such as the start of Spark, and ten seconds for a commit.
_STOP_SECONDS = 120.0


class InProcessDriver:
    """A driver's loop in a thread, and all of its reports."""

    def __init__(
        self,
        stream: ContinuousStream,
        jvm: Jvm,
        environment: Environment,
        policy: RestartPolicy,
        api: Api | None = None,
        sample_seconds: float | None = None,
        followed: FollowedStream | None = None,
    ) -> None:
        self.reports: list[DriverReport] = []
        output = DriverOutput(publish=self.reports.append)
        self.health, self.metrics = output.health, output.metrics
        followed = followed or FollowedStream(LiveFields.of(stream.spec))
        context = DriverContext.of(stream, environment, jvm, followed, api)
        self.runtime = QueryRuntime(stream, context)
        generation = context.checkpoints.generation(stream.spec.checkpoint.generation)
        self._progress = ProgressReader(generation)
        self.stop = threading.Event()
        self.error: BaseException | None = None
        sampler = None
        if sample_seconds is not None:
            sampler = Sampler(
                self.runtime, jvm, stream.spec, environment.secrets, self.metrics, sample_seconds
            )
        self._loop = Loop(self.runtime, policy, "hash", output, sampler=sampler)
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
        return (
            self.reports[-1]
            if self.reports
            else DriverReport(spec_hash="", state=QueryState.STARTING)
        )

    def wait(self, what: str, holds: Callable[[DriverReport], bool]) -> DriverReport:
        """Waits until `holds` is true of the newest report; raises the error of the loop."""
        wait_for(
            what,
            lambda: self.error is not None or holds(self.last),
            detail=lambda: f"the last report: {self.last!r}",
        )
        self.raise_error()
        return self.last

    def wait_failure(self, reason: str) -> DriverReport:
        return self.wait(
            f"failed for {reason}",
            lambda report: report.last_failure is not None and report.last_failure.reason == reason,
        )

    def wait_ready(self) -> DriverReport:
        return self.wait("ready", lambda _: self.health.ready)

    def wait_committed(self, records: int) -> DriverReport:
        """Waits until this many records of the source are committed."""
        return self.wait(
            f"{records} records committed",
            lambda _: total(self._progress.committed_offsets()) == records,
        )

    def raise_error(self) -> None:
        """Raises the exception that ended the loop, if one did."""
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def second_jvm(class_path: str, submit: Sequence[str] = ()) -> Iterator[Jvm]:
    """A JVM of a test's own, with arguments for SparkSubmit. It is killed in the end.

    pyspark keeps its first one for the whole process, so that one is set aside meanwhile.
    """
    options = fast_start_options([], 1024, cores=0)
    second = Jvm.launch(1024, class_path, "127.0.0.1", options, submit)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_gateway", "_jvm", "_active_spark_context"):
            patch.setattr(SparkContext, name, None)
        try:
            yield second
        finally:
            second.kill()
            second.end()


def impatient(stream: ContinuousStream) -> RestartPolicy:
    """The policy of a stream, with short delays: a cause that has gone is noticed at once."""
    return replace(RestartPolicy.from_spec(stream.spec), backoff_base=0.1, recheck_interval=0.3)


@contextlib.contextmanager
def running(
    stream: ContinuousStream,
    jvm: Jvm,
    where: Path | Environment,
    policy: RestartPolicy | None = None,
    api: Api | None = None,
    sample_seconds: float | None = None,
    followed: FollowedStream | None = None,
) -> Iterator[InProcessDriver]:
    """A driver that runs during the block, and stops cleanly at its end.

    With `sample_seconds` it also samples records and Spark's metrics, so often. With `followed` it
    takes the live fields from there.
    Raises an exception that ended the loop, unless the block already raises one.
    """
    environment = LocalEnvironment(where) if isinstance(where, Path) else where
    policy = policy or replace(RestartPolicy.from_spec(stream.spec), backoff_base=0.1)
    driver = InProcessDriver(stream, jvm, environment, policy, api, sample_seconds, followed)
    try:
        yield driver
    finally:
        driver.stop.set()
        driver.thread.join(_STOP_SECONDS)
        assert not driver.thread.is_alive(), f"the loop does not return\n{_stacks(jvm)}"
    driver.raise_error()


def _stacks(jvm: Jvm) -> str:
    """What every thread of this process and of the JVM does."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        ours = file.read()
    command = ["jcmd", str(jvm.pid), "Thread.print"]
    theirs = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return f"{ours}\n{theirs.stdout}{theirs.stderr}"
