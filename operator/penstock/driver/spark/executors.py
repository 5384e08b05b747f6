"""The executors of the running application: how many cores there are, and asking for more."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

# Who speaks, at which level, of tasks that end because their query was stopped on purpose.
_MOURNERS = (
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.streaming.continuous.ContinuousWriteRDD",
    # Of a micro-batch: its write is aborted, and its jobs are cancelled twice.
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.TaskContextImpl",
    # The writing of a checkpoint file is interrupted.
    "org.apache.hadoop.util.Shell",
)


def registered(spark_context: Any) -> int:
    """Executors that are ready for tasks: registered, and not known to be on their way out.

    The scheduler's own view. An executor whose connection is lost leaves it at once, though
    Spark on Kubernetes waits for the API's word before it gives up the executor's tasks.
    """
    java = spark_context._jsc.sc()
    ids, backend = java.getExecutorIds(), java.schedulerBackend()
    return sum(bool(backend.isExecutorActive(ids.apply(i))) for i in range(ids.length()))


def request(spark_context: Any, executors: int) -> None:
    """Asks the cluster manager for so many executors in all; fewer than now changes nothing.

    SparkContext.requestTotalExecutors is the developer API that dynamic allocation itself uses.
    """
    empty = spark_context._jvm.PythonUtils.toScalaMap({})
    spark_context._jsc.sc().requestTotalExecutors(executors, 0, empty)


def is_stopped(spark_context: Any) -> bool:
    """Whether Spark has stopped the application by itself."""
    return bool(spark_context._jsc.sc().isStopped())


@contextlib.contextmanager
def quiet_about_killed_tasks(spark_context: Any, session_too: bool = False) -> Iterator[None]:
    """While a query is stopped on purpose, its tasks' end is not worth a warning.

    The tasks' end is waited for, unless the block does so itself and stops the session as well.
    """
    log4j = spark_context._jvm.org.apache.logging.log4j
    configurator, level = log4j.core.config.Configurator, log4j.Level
    for name in _MOURNERS:
        configurator.setLevel(name, level.OFF)
    try:
        yield
        if not session_too:
            wait_until_idle(spark_context)
    finally:
        for name in _MOURNERS:
            configurator.setLevel(name, level.WARN)


def wait_until_idle(spark_context: Any, patience: float = 8.0) -> None:
    """Waits, bounded, until the tasks of a stopped query have ended.

    Spark cancels them and does not wait; a session that stops meanwhile logs errors about results
    that nobody takes.
    """
    # A stage leaves the pool when the end of its last task has been handled, and logged.
    pool = spark_context._jsc.sc().taskScheduler().rootPool()
    deadline = time.monotonic() + patience
    while not pool.schedulableQueue().isEmpty() and time.monotonic() < deadline:
        time.sleep(0.02)
