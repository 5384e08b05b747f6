"""Activity of a query between commits, which some engines make seldom or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.driver.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class Activity:
    """What can be observed of a query between two commits."""

    idle: bool = False
    """The query has looked for new records and found none. A micro-batch engine commits nothing
    while this lasts."""
    batch_running: bool = False
    """A batch runs. It may take as long as it needs to catch up."""
    confirmed_running: bool = False
    """The query works although it has not committed: every partition has a running task (real-time
    mode, whose first commit may take minutes), or it is idle (micro-batch)."""
    active_tasks: int | None = None
    """Running tasks, in a mode where each partition always has one; else None."""


NONE = Activity()


def observe_activity(
    query: StreamingQuery, spark_context: Any, engine: Engine, partitions: int
) -> Activity:
    """The query's activity now.

    Uses StreamExecution.noNewData, which processAllAvailable waits for; the query's status would
    have to be compared as text.
    """
    tracker = spark_context._jsc.sc().statusTracker()
    if engine is Engine.CONTINUOUS:
        return Activity(active_tasks=_active_tasks(tracker))
    if engine is Engine.REAL_TIME:
        return Activity(confirmed_running=0 < partitions <= _active_tasks(tracker))
    idle = bool(query._jsq.streamingQuery().noNewData())
    busy = len(tracker.getActiveJobIds()) > 0
    return Activity(idle=idle, batch_running=busy, confirmed_running=idle)


def _active_tasks(tracker: Any) -> int:
    stages = (tracker.getStageInfo(number) for number in tracker.getActiveStageIds())
    return sum(int(stage.get().numActiveTasks()) for stage in stages if not stage.isEmpty())
