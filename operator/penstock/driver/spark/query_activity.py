"""Activity of a query between commits, which some engines make seldom or not at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.api.modes import Mode
from penstock.driver.spark import session

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class Activity:
    """What can be observed of a query between two commits."""

    idle: bool
    """The query has looked for new records and found none. A micro-batch engine commits nothing
    while this lasts."""
    idle_trigger: str | None
    """The start of the trigger that Spark's newest progress is about; None unless idle. An idle
    query has a new one every ten seconds (spark.sql.streaming.noDataProgressEventInterval), or in
    each interval of its trigger."""
    work: tuple[int, ...] | None
    """Completed tasks and rows of the running stages: it changes while a batch works. None in
    continuous mode, whose sign of life is the commit."""
    confirmed_running: bool
    """The query works although it has not committed: each of its tasks runs (real-time
    mode, whose first commit may take minutes), or it is idle (micro-batch)."""
    active_tasks: int | None
    """Running tasks, in a mode where each partition always has one; else None."""
    waiting_tasks: int
    """Of the same stages, the tasks that wait for a core."""
    handled: int
    """Records that a batch of real-time mode, which may take minutes, has read and passed on so
    far, by Kafka's offsets: Spark counts the records, RecordInHand.java what lies between them. 0
    in the other modes, which commit soon.
    """
    stands_at: str | None
    """Where the function of sink.python is, which runs."""


NO_ACTIVITY = Activity(
    idle=False,
    idle_trigger=None,
    work=None,
    confirmed_running=False,
    active_tasks=None,
    waiting_tasks=0,
    handled=0,
    stands_at=None,
)


def observe_activity(
    query: StreamingQuery,
    spark_context: Any,
    mode: Mode,
    partitions: int,
    outside: int = 0,
) -> Activity:
    """The query's activity now; `partitions` are those of the source. `outside` changes while a
    batch is worked on without a task of Spark's.

    Uses StreamExecution.noNewData, which processAllAvailable waits for; the query's status would
    have to be compared as text.
    """
    if mode is Mode.CONTINUOUS:
        tracker = spark_context._jsc.sc().statusTracker()
        infos = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        stages = [stage.get() for stage in infos if stage.nonEmpty()]
        running = sum(int(stage.numActiveTasks()) for stage in stages)
        begun = running + sum(int(stage.numCompletedTasks()) for stage in stages)
        waiting = max(0, sum(int(stage.numTasks()) for stage in stages) - begun)
        return replace(NO_ACTIVITY, active_tasks=running, waiting_tasks=waiting)
    work, active, waiting, read = _work(spark_context)
    if mode is Mode.REAL_TIME:
        confirmed = 0 < partitions <= active and waiting == 0
        return replace(NO_ACTIVITY, work=work, confirmed_running=confirmed, handled=read)
    idle = bool(query._jsq.streamingQuery().noNewData())
    progress = query._jsq.lastProgress() if idle else None
    idle_trigger = None if progress is None else str(progress.timestamp())
    return replace(
        NO_ACTIVITY,
        idle=idle,
        idle_trigger=idle_trigger,
        work=(*work, outside),
        confirmed_running=idle,
    )


def _work(spark_context: Any) -> tuple[tuple[int, ...], int, int, int]:
    """What the running stages have done, their running and waiting tasks, and the records that they
    have read.

    Rows arrive with the executors' heartbeats (AppStatusListener.onExecutorMetricsUpdate), so a
    task that runs for minutes shows that it works, and one that is stuck that it does not. Tasks of
    the driver's own JVM tell RunningTasks.java.
    """
    stages = spark_context._jsc.sc().statusStore().activeStages()
    here = session.rows_of_running_tasks(spark_context)
    work: list[int] = list(here)
    active = waiting = 0
    read = here[0]
    for stage in (stages.apply(i) for i in range(stages.length())):
        active += int(stage.numActiveTasks())
        waiting += (
            int(stage.numTasks()) - int(stage.numActiveTasks()) - int(stage.numCompleteTasks())
        )
        read += int(stage.inputRecords())
        work += [
            int(stage.stageId()),
            int(stage.attemptId()),
            int(stage.numCompleteTasks()),
            int(stage.inputRecords()) + int(stage.shuffleReadRecords()),
            int(stage.outputRecords()) + int(stage.shuffleWriteRecords()),
        ]
    return tuple(work), active, waiting, read
