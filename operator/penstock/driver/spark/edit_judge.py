"""Asks Spark about an edit of the stream that runs, before the operator applies it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.stream import Stream
from penstock.contract.edit_effects import ANSWER_WITHIN
from penstock.contract.stream_defaults import NO_DEFAULTS, StreamDefaults
from penstock.driver.background_threads import repeat_in_background
from penstock.driver.checkpoint.generations import Generations
from penstock.driver.checkpoint.storage.files import Checkpoints
from penstock.driver.environment import Environment
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import DriverError, Failure
from penstock.driver.jdbc.sink_table import SinkTable
from penstock.driver.kafka.security import check_secrets
from penstock.driver.spark import executors, query, state_partitions, user_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# What Spark plans a query from.
_QUERY = (
    "source", "transform", "sink", "trigger", "output_mode", "checkpoint.generation",
    "checkpoint.start_from", "checkpoint.state_partitions",
)  # fmt: skip
# What only the next process has. (The operator compares the images: a spec may name none.)
_PROCESS = ("dependencies", "driver", "spark_conf", "secret_spark_conf")
# Later, the operator does not wait for the answer any more.
_PLAN_SECONDS = ANSWER_WITHIN.total_seconds()
# A job gets a core at once, or as soon as a batch has ended.
_WITHOUT_CORE_SECONDS = 5.0
_LOOK_SECONDS = 0.5


def asks_spark(running: StreamSpec, edited: StreamSpec) -> bool:
    """Whether an edit makes another query, which this process would plan as the next one will."""
    if _same(running, edited, _QUERY) or not _same(running, edited, _PROCESS):
        return False
    # The file in this pod may be older than the ConfigMap, or missing.
    return all(function.config_map is None for function in edited.python_functions)


def _same(running: StreamSpec, edited: StreamSpec, fields: tuple[str, ...]) -> bool:
    return bool(attrgetter(*fields)(running) == attrgetter(*fields)(edited))


class _Jobs:
    """The jobs that planning runs, such as for the schema of a file, beside a query.

    The tasks of continuous and real-time mode never end. If they hold all cores, such a job would
    wait until the query fails, and then take the cores from it. Of a query in real-time mode with a
    shuffle Spark fails the next batch if there is any other task (DAGScheduler, 4.3).
    """

    def __init__(self, context: SparkContext, *, allowed: bool) -> None:
        self._allowed = allowed
        self.cancelled: str | None = None
        """Why they were."""
        self._context = context
        self._group = f"penstock-edit-{uuid.uuid4()}"
        self._began = time.monotonic()
        self._worked_at: dict[int, float] = {}

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Cancels the jobs that this thread starts in the block, once they are not worth waiting
        for.
        """
        self._context.setJobGroup(self._group, "Planning an edit", interruptOnCancel=True)
        try:
            seconds = _LOOK_SECONDS if self._allowed else _LOOK_SECONDS / 10
            with repeat_in_background(self._look, seconds, "edit-jobs"):
                yield
        finally:
            self._context._jsc.sc().clearJobGroup()

    def _look(self) -> None:
        now, tracker = time.monotonic(), self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            if info is None or info.status != "RUNNING":
                continue
            if not self._allowed:
                self._cancel("its plan runs a job, and the query needs all cores at once")
                continue
            stages = [tracker.getStageInfo(stage) for stage in info.stageIds]
            works = any(stage is not None and stage.numActiveTasks > 0 for stage in stages)
            worked_at = now if works else self._worked_at.get(job, now)
            self._worked_at[job] = worked_at
            if now - worked_at > _WITHOUT_CORE_SECONDS:
                self._cancel("its plan runs a job, which gets no core beside the query")
            elif now - self._began > _PLAN_SECONDS:
                self._cancel("its plan runs a job, which takes too long")

    def _cancel(self, why: str) -> None:
        self.cancelled = why
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)


class EditJudge:
    """Plans edited queries beside the one that runs, and starts none."""

    def __init__(
        self,
        running: StreamSpec,
        environment: Environment,
        checkpoints: Checkpoints,
        session: Callable[[], SparkSession | None],
        defaults: StreamDefaults = NO_DEFAULTS,
        needs_all_cores: Callable[[], bool] = lambda: False,
    ) -> None:
        """`defaults` are what `running` has where its manifest sets nothing; `needs_all_cores`: no
        task may run beside the query.
        """
        self._running = running
        self._environment = environment
        self._checkpoints = checkpoints
        self._session = session
        self._defaults = defaults
        self._needs_all_cores = needs_all_cores

    def judge(self, stream: Stream) -> Failure | None:
        """Why the stream's spec could never run; None if nothing is known against it.

        Raises an exception where that cannot be told now; TimeoutError if the plan runs jobs that
        get no core beside the query, or that take too long.
        """
        manifest = self._defaults.under(stream.manifest)
        edited = ContinuousStream.model_validate(manifest, extra="ignore").spec
        if not asks_spark(self._running, edited):
            return None
        try:
            check_secrets(edited, self._environment.secrets)
        except DriverError:
            return None  # this pod has not mounted them
        spark = self._session()
        if spark is None:
            raise RuntimeError("Spark does not run")
        jobs = _Jobs(spark.sparkContext, allowed=not self._needs_all_cores())
        try:
            with jobs.bounded(), user_python.without_effect():
                self._plan(spark, edited)
        except Exception as error:
            if jobs.cancelled is not None:
                raise TimeoutError(jobs.cancelled) from error
            failure = classify_exception(error)
            ended = self._session() is not spark or executors.is_stopped(spark.sparkContext)
            if ended or failure.recoverable or not failure.permanent:
                raise
            return failure
        return None

    def _plan(self, spark: SparkSession, edited: StreamSpec) -> None:
        """As QueryRuntime.check_query does, but with views and functions of its own."""
        generations = Generations(edited, self._checkpoints)
        generations.check_begins()
        checkpoint = generations.current
        if edited.trigger.mode is not self._running.trigger.mode:
            checkpoint.check_continues(edited)
        checkpoint.check_sink(edited)
        frame = query.plan(spark.newSession(), edited, self._environment)
        query.check(frame, edited)
        query.sink_function(edited, self._environment.python)
        if edited.sink.jdbc is not None:
            gateway, secrets = spark.sparkContext._gateway, self._environment.secrets
            table = SinkTable(gateway, edited.sink.jdbc, secrets).check()
            query.rows_for_table(frame, edited.sink.jdbc, table)
        # The repair that a switch of the mode needs changes none of it.
        contents = checkpoint.contents()
        query.check_continues(frame, contents, generations.batch_known_elsewhere())
        state_partitions.new_partition_count(edited, contents, checkpoint.has_undivided_state)
