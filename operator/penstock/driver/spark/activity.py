"""Signs of life of a query beside its commits, which some engines give seldom or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.driver.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class Activity:
    """What can be seen of a query between two commits."""

    idle: bool = False
    """It has looked for new records and there are none: a micro-batch engine then commits nothing,
    for as long as it lasts."""
    busy: bool = False
    """A batch is being worked on, which may take as long as it has records to catch up with."""
    flowing: bool = False
    """Every partition has a task that runs, in a mode whose first commit may be minutes away."""
    tasks: int | None = None
    """Tasks that run, in a mode where each partition should always have one."""


NONE = Activity()


def observe_activity(
    query: StreamingQuery, spark_context: Any, engine: Engine, partitions: int
) -> Activity:
    """The query's pulse.

    StreamExecution.noNewData is what processAllAvailable waits for; the status's own words would
    have to be compared as text.
    """
    tracker = spark_context._jsc.sc().statusTracker()
    if engine is Engine.CONTINUOUS:
        return Activity(tasks=_active_tasks(tracker))
    if engine is Engine.REAL_TIME:
        return Activity(flowing=0 < partitions <= _active_tasks(tracker))
    idle = bool(query._jsq.streamingQuery().noNewData())
    return Activity(idle=idle, busy=len(tracker.getActiveJobIds()) > 0, flowing=idle)


def _active_tasks(tracker: Any) -> int:
    stages = (tracker.getStageInfo(number) for number in tracker.getActiveStageIds())
    return sum(int(stage.get().numActiveTasks()) for stage in stages if not stage.isEmpty())
