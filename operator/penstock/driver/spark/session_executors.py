"""The executors of a driver's sessions: which are asked for, and whether they write state."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import Size
from penstock.driver.environment import Environment, LocalEnvironment
from penstock.driver.failures import StreamWarning
from penstock.driver.kubernetes.api import Api
from penstock.driver.spark import executors
from penstock.driver.spark.executor_pods import ClusterPreparation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often the executors of a running query are counted.
_REGISTERED_SECONDS = 1.0
_WITHOUT_EXECUTORS = {"spark.executor.instances": "0"}


class SessionExecutors:
    """The executors of one session after the other; on a laptop, the cores of the JVM.

    Those that write state mount the checkpoint, and may have to run on the driver's node. So they
    are asked for only once it is known whether the query keeps state.
    """

    def __init__(
        self, stream: ContinuousStream, environment: Environment, api: Api | None = None
    ) -> None:
        self._is_local = isinstance(environment, LocalEnvironment)
        self._all_write_state = self._is_local or stream.spec.checkpoint.object_store is not None
        self._cluster = ClusterPreparation(stream, environment, api)
        self._wanted: Size | None = None
        self.requested: Size | None = None
        """What the session was last asked for; None if it was asked for no executors yet."""
        self._write_state: bool | None = None
        """Whether they can write state; None if none were asked for."""
        self._ready = 0
        self._counted_at = 0.0
        self._memory_kills = executors.MemoryKills()

    def before_session(self, size: Size, *, keeps_state: bool | None) -> dict[str, str]:
        """The settings with which a session starts: with its executors, if it is known whether the
        query keeps state.

        Waits until the executors of an earlier driver process are gone.
        """
        self._cluster.finish()
        self._wanted = size
        if self._all_write_state:
            keeps_state = False
        # Spark reads the template when it starts, and again for each pod (Spark 4.2,
        # KubernetesClusterManager.createSchedulerBackend, KubernetesExecutorBuilder).
        self._cluster.write_template(keeps_state=bool(keeps_state))
        if keeps_state is None:
            self.forget()
            return _WITHOUT_EXECUTORS
        self.requested, self._write_state = size, keeps_state
        return {}

    def request_for_job(self, session: SparkSession) -> None:
        """Asks for an executor if there is none, for a job of a query that is still being planned.

        It does not write state. If the query turns out to keep some, the session starts anew.
        """
        if self.requested is None and self._wanted is not None:
            self.request(session, replace(self._wanted, executors=1), keeps_state=False)

    def planned(self, *, keeps_state: bool) -> None:
        """Tells whether the query keeps state, now that it is planned."""
        if not self._all_write_state and self._write_state not in (None, keeps_state):
            self.requested = None  # others are needed

    def request(self, session: SparkSession, size: Size, *, keeps_state: bool) -> bool:
        """Asks for so many executors in all. False: another session must start with them.

        A local session has the cores that it started with, and one with executors that cannot write
        the query's state keeps these.
        """
        keeps_state = keeps_state and not self._all_write_state
        if self._is_local or self._write_state not in (None, keeps_state):
            return False
        if self._write_state is None:
            self._cluster.write_template(keeps_state=keeps_state)
        executors.request(session.sparkContext, size.executors)
        self.requested, self._write_state = size, keeps_state
        return True

    def forget(self) -> None:
        """The session is gone, and its executors with it."""
        self.requested = self._write_state = None

    def registered(self, session: SparkSession | None, *, query_runs: bool) -> tuple[int, int]:
        """Executors that are ready for tasks, and their cores."""
        if session is None or self.requested is None:
            return 0, 0
        if self._is_local:
            return self.requested.executors, self.requested.cores
        # Two calls into the JVM for each executor, so not at each look while all is well.
        now = time.monotonic()
        if not query_runs or now - self._counted_at >= _REGISTERED_SECONDS:
            self._ready = executors.registered(session.sparkContext)
            self._counted_at = now
            self._cluster.look_after(lacks_executors=self._ready < self.requested.executors)
        return self._ready, self._ready * self.requested.cores_per_executor

    def killed_for_memory(self, session: SparkSession | None) -> StreamWarning | None:
        """A warning about executors that were killed since the last call."""
        if session is None or self.requested is None or self._is_local:
            return None
        lacks_some = self._ready < self.requested.executors
        return self._memory_kills.new(session.sparkContext) if lacks_some else None
