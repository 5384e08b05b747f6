"""Spark in a driver's process: its session, and the executors that it asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import Size, threads_in_driver
from penstock.driver.environment import Environment
from penstock.driver.failures import QUERY_NOT_STOPPED, DriverError, Failure
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import Api
from penstock.driver.spark import executors, session
from penstock.driver.spark.executor_pods import ClusterPreparation
from penstock.driver.spark.session import LOG_LEVEL, LogLevel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often the executors of a running query are counted.
_REGISTERED_SECONDS = 1.0
# For so long after some were missing, it is asked why they ended.
_MEMORY_KILL_SECONDS = 60.0
_WITHOUT_EXECUTORS = {"spark.executor.instances": "0"}


class SparkApplication:
    """One session after the other, each with its executors, or with threads of the driver's JVM.

    It outlives a query that an edit replaces. Executors that write state mount the checkpoint, and
    may have to run on the driver's node. So they are asked for only once it is known whether the
    query keeps state.
    """

    def __init__(
        self,
        stream: ContinuousStream,
        environment: Environment,
        jvm: Jvm,
        api: Api | None = None,
    ) -> None:
        self._environment = environment
        self._jvm = jvm
        self.session: SparkSession | None = None
        """That of the query which runs, or is to run next; None while Spark does not run."""
        self._log_level = LogLevel(stream.spec.spark_conf.get("spark.log.level", LOG_LEVEL))
        self._writes: Any | None = None
        """The Java class that knows of failed writes; None on a laptop without Kafka."""
        self._in_object_store = stream.spec.checkpoint.object_store is not None
        self._cluster = ClusterPreparation(stream, environment, api)
        self._wanted: Size | None = None
        self.requested: Size | None = None
        """What the session was last asked for; None if it was asked for no executors yet."""
        self._threads = 0
        """Task slots of the last session whose tasks ran in the driver; 0 if there was none."""
        self._write_state: bool | None = None
        """Whether they can write state; None if none were asked for."""
        self.state_tasks = 0
        """Of the newest query: how many tasks behind a shuffle run all the time."""
        self._ready = 0
        self._counted_at = 0.0
        self._lacked_at: float | None = None
        self._memory_kills = executors.MemoryKills()

    def start(self, stream: ContinuousStream, size: Size, *, keeps_state: bool | None) -> None:
        """Starts a session: with its executors, if it is known whether the query keeps state.

        Waits until the executors of an earlier driver process are gone.
        """
        conf = session.spark_conf(stream, self._environment, size)
        conf |= self.before_session(size, keeps_state=keeps_state)
        if size.in_driver:
            self._threads = threads_in_driver(stream.spec, size)
        self.session = session.start(self._jvm.gateway, conf)
        self._writes = session.failed_write(self._jvm.gateway)

    def begin_next_query(self) -> None:
        """Gives the next query a child of the session of the one before, which is over.

        So it finds no view and no function of that one.
        """
        if self._jvm.exit_code is not None:
            self.session = None
        elif self.session is not None and not executors.is_stopped(self.session.sparkContext):
            self.session = session.child(self.session)  # else the next query finds out

    def has_stopped(self) -> bool:
        """Whether Spark has stopped by itself. Then another session can start."""
        if self.session is None or not executors.is_stopped(self.session.sparkContext):
            return False
        # pyspark would refuse another context as long as it does not know that this one ended.
        self.session.stop()
        self.session = self.requested = self._write_state = None
        return True

    def stop(self, end_query: Callable[[], bool] = lambda: False) -> None:
        """Stops the session, which releases the executors.

        `end_query` is called while Spark still runs, and returns whether there was one. Tasks of
        async progress tracking may end only with the session.
        """
        up, self.session = self.session, None
        self.requested = self._write_state = None
        if up is None:
            return
        with executors.without_stop_warnings(up.sparkContext):
            try:
                if end_query():
                    executors.wait_until_idle(up.sparkContext)
            finally:
                up.stop()

    def end_query(self, end: Callable[[], None]) -> None:
        """Ends the query for another one: its tasks have ended then, without a warning."""
        if self.session is None:
            end()
            return
        with executors.without_stop_warnings(self.session.sparkContext):
            end()
            executors.wait_until_idle(self.session.sparkContext)

    def check_tasks_have_ended(self) -> None:
        """Raises DriverError if a task of a query that was stopped still runs in the driver's JVM.

        Executors get rid of one: another session has others.
        """
        if self.session is None or self.requested is None or not self.requested.in_driver:
            return
        if not executors.stopped_tasks_have_ended(self.session.sparkContext):
            raise _task_not_stopped()

    def set_log_level(self, level: str | None, registered: int) -> None:
        """Gives the driver and so many executors this level; None: that of the settings."""
        if self.session is not None:
            self._log_level.set(self.session, level, registered)

    def failed_write(self) -> str | None:
        """The file of the checkpoint that could not be written since the last call."""
        return None if self._writes is None else self._writes.take()

    def before_session(self, size: Size, *, keeps_state: bool | None) -> dict[str, str]:
        """The settings that its executors add to those of a session.

        Raises DriverError if a task of an earlier session still runs in the driver's JVM.
        """
        if self._threads and not executors.have_ended(self._jvm.gateway):
            raise _task_not_stopped()
        self._cluster.finish(with_executors=not size.in_driver)
        self._wanted = size
        if size.in_driver:
            self.requested, self._write_state = size, True
            return {}
        if self._in_object_store:
            keeps_state = False
        # Spark reads the template when it starts, and again for each pod (Spark 4.2,
        # KubernetesClusterManager.createSchedulerBackend, KubernetesExecutorBuilder).
        self._cluster.write_template(keeps_state=bool(keeps_state))
        if keeps_state is None:
            self.requested = self._write_state = None
            return _WITHOUT_EXECUTORS
        self.requested, self._write_state = size, keeps_state
        return {}

    def request_for_job(self) -> None:
        """Asks for an executor if there is none, for a job of a query that is still being planned.

        It does not write state. If the query turns out to keep some, the session starts anew.
        """
        if self.requested is None and self._wanted is not None:
            self.request(replace(self._wanted, executors=1), keeps_state=False)

    def planned(self, *, keeps_state: bool, state_tasks: int) -> None:
        """Tells whether the query keeps state, now that it is planned, and what that takes."""
        self.state_tasks = state_tasks
        if (self.requested is not None and self.requested.in_driver) or self._in_object_store:
            return
        if self._write_state not in (None, keeps_state):
            self.requested = None  # others are needed

    def request(self, size: Size, *, keeps_state: bool) -> bool:
        """Asks for so many executors in all. False: another session must start with them.

        One whose tasks run in the driver has the threads that it started with, and one with
        executors that cannot write the query's state keeps these.
        """
        assert self.session is not None
        in_driver = self.requested is not None and self.requested.in_driver
        if in_driver or size.in_driver:
            fits = in_driver and size.in_driver and size.cores <= self._threads
            self.requested = size if fits else self.requested
            return fits
        keeps_state = keeps_state and not self._in_object_store
        if self._write_state not in (None, keeps_state):
            return False
        if self._write_state is None:
            self._cluster.write_template(keeps_state=keeps_state)
        executors.request(self.session.sparkContext, size.executors)
        self.requested, self._write_state = size, keeps_state
        return True

    def registered(self, *, query_runs: bool) -> tuple[int, int]:
        """Executors that are ready for tasks, and their cores."""
        if self.session is None or self.requested is None:
            return 0, 0
        if self.requested.in_driver:
            return 0, self.requested.cores
        # Two calls into the JVM for each executor, so not at each look while all is well.
        now = time.monotonic()
        if not query_runs or now - self._counted_at >= _REGISTERED_SECONDS:
            self._ready = executors.registered(self.session.sparkContext)
            self._counted_at = now
            self._cluster.look_after(lacks_executors=self._ready < self.requested.executors)
        return self._ready, self._ready * self.requested.cores_per_executor

    def killed_for_memory(self) -> Failure | None:
        """A warning about executors that were killed since the last call."""
        if self.session is None or self.requested is None or self.requested.in_driver:
            return None
        now = time.monotonic()
        if self._ready < self.requested.executors:
            self._lacked_at = now
        # Others may have taken their place while a step ran.
        is_due = self._lacked_at is not None and now - self._lacked_at < _MEMORY_KILL_SECONDS
        return self._memory_kills.new(self.session.sparkContext) if is_due else None


def _task_not_stopped() -> DriverError:
    return DriverError(
        Failure(
            QUERY_NOT_STOPPED,
            "A task of the query does not end, and only the end of its JVM stops it: the driver's "
            "process starts anew. A function that computes for ever is the most frequent reason.",
        )
    )
