"""The executors of the running application: how many are ready, and why some ended; requests."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any

from penstock.driver.failures import Failure
from penstock.driver.jvm import EXIT_OUT_OF_MEMORY

# So many looks in a row, 20 ms apart, must find no task.
_EMPTY_LOOKS = 5
_IDLE_SECONDS = 8.0
# How Spark names the threads of tasks (Executor.TaskRunner, 4.3).
_TASK_THREAD = "Executor task launch worker"
_THREADS_SECONDS = 2.0
# These loggers warn about the end of tasks whose query is stopped on purpose.
_LOGGERS_OF_ENDING_TASKS = (
    "org.apache.spark.scheduler.TaskSetManager",
    # Continuous: a task reports its offsets to a coordinator that has just ended.
    "org.apache.spark.executor.Executor",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.streaming.continuous.ContinuousWriteRDD",
    # Micro-batch: the write is aborted, and the jobs are cancelled twice.
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.TaskContextImpl",
    # The query's metrics may be gone before the ends of its tasks are handled.
    "org.apache.spark.util.AccumulatorContext",
    # The write of a checkpoint file is interrupted.
    "org.apache.hadoop.util.Shell",
)
# Spark quotes Kubernetes (ExecutorPodsLifecycleManager and containersDescription, Spark 4.2): the
# reason of a terminated container has no place of its own.
_OOM_KILLED = re.compile(r"termination reason: OOMKilled\b")
_OUT_OF_HEAP = re.compile(rf"\bexit code:? {EXIT_OUT_OF_MEMORY}\b")
_MEMORY_ENDS = {
    _OOM_KILLED: "used more memory than its container's limit and was killed. Raise "
    "spec.executor.resources.limits.memory and spec.executor.memoryOverhead.",
    _OUT_OF_HEAP: "ran out of heap. Raise spec.executor.resources.limits.memory.",
}


def registered(spark_context: Any) -> int:
    """The number of executors that are registered and ready for tasks.

    This is the scheduler's own view. It drops an executor as soon as the connection is lost,
    although Spark on Kubernetes waits for the API server before it gives up the executor's tasks.
    """
    java = spark_context._jsc.sc()
    ids, backend = java.getExecutorIds(), java.schedulerBackend()
    return sum(bool(backend.isExecutorActive(ids.apply(i))) for i in range(ids.length()))


def request(spark_context: Any, executors: int) -> None:
    """Asks the cluster manager for this total number of executors; a smaller one has no effect.

    SparkContext.requestTotalExecutors is the developer API that dynamic allocation itself uses.
    """
    empty = spark_context._jvm.PythonUtils.toScalaMap({})
    spark_context._jsc.sc().requestTotalExecutors(executors, 0, empty)


def is_stopped(spark_context: Any) -> bool:
    """Whether Spark has stopped the application by itself."""
    return bool(spark_context._jsc.sc().isStopped())


class MemoryKills:
    """The executors of a driver's sessions that were killed for their memory."""

    def __init__(self) -> None:
        self._reported: set[tuple[int, str]] = set()

    def new(self, spark_context: Any) -> Failure | None:
        """A warning about those that were not reported before; None if there are none."""
        session = spark_context._jsc.sc().startTime()
        summaries = spark_context._jsc.sc().statusStore().executorList(False)
        ended = {
            str(summary.id()): _remove_reason(summary)
            for summary in (summaries.apply(i) for i in range(summaries.length()))
            if not summary.isActive() and (session, str(summary.id())) not in self._reported
        }
        for pattern, what in _MEMORY_ENDS.items():
            ids = [id for id, reason in ended.items() if pattern.search(reason)]
            if ids:
                self._reported.update((session, id) for id in ids)
                return Failure("ExecutorOutOfMemory", f"The executor {', '.join(ids)} {what}")
        return None


def have_ended(gateway: Any) -> bool:
    """Whether no thread of a task is left of a session that was stopped in this JVM.

    A task that does not look at its interrupt runs on. Idle threads end with the session
    (Executor.stop, Spark 4.3).
    """
    deadline = time.monotonic() + _THREADS_SECONDS
    while any(
        str(thread.getName()).startswith(_TASK_THREAD)
        for thread in gateway.jvm.java.lang.Thread.getAllStackTraces().keySet()
    ):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _remove_reason(summary: Any) -> str:
    reason = summary.removeReason()
    return "" if reason.isEmpty() else str(reason.get())


@contextlib.contextmanager
def without_stop_warnings(spark_context: Any) -> Iterator[None]:
    """Suppresses warnings about ending tasks while a query is stopped on purpose."""
    log4j = spark_context._jvm.org.apache.logging.log4j
    configurator = log4j.core.config.Configurator
    levels = {n: log4j.LogManager.getLogger(n).getLevel() for n in _LOGGERS_OF_ENDING_TASKS}
    for name in levels:
        configurator.setLevel(name, log4j.Level.OFF)
    try:
        yield
    finally:
        for name, level in levels.items():
            configurator.setLevel(name, level)


def stopped_tasks_have_ended(spark_context: Any) -> bool:
    """Whether no task of a job that was cancelled, or has failed, runs any more.

    Looks for up to eight seconds. Such a job's sets of tasks are zombies, and leave the pool with
    their last task (TaskSetManager, Spark 4.3).
    """
    pool = spark_context._jsc.sc().taskScheduler().rootPool()
    deadline = time.monotonic() + _IDLE_SECONDS
    while any(tasks.isZombie() for tasks in pool.schedulableQueue().toArray()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def wait_until_idle(spark_context: Any) -> None:
    """Waits up to eight seconds until the tasks of a stopped query have ended.

    Spark cancels them without waiting, and a session that stops before they end logs errors about
    results that nobody takes.
    """
    # A stage leaves the pool when the end of its last task has been handled, and logged. A job that
    # was submitted just before the stop comes into the pool after it (MicroBatchExecution.stop
    # cancels it, too), so one look at an empty pool is not enough.
    pool = spark_context._jsc.sc().taskScheduler().rootPool()
    deadline, empty = time.monotonic() + _IDLE_SECONDS, 0
    while empty < _EMPTY_LOOKS and time.monotonic() < deadline:
        empty = empty + 1 if pool.schedulableQueue().isEmpty() else 0
        time.sleep(0.02)
