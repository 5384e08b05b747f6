"""What a driver waits for while a query is planned: code of the user, or a job of Spark."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from penstock.driver.spark.application import SparkApplication

if TYPE_CHECKING:
    from pyspark import SparkContext

_OWN_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class PlanningWait:
    """What planning waits for."""

    what: str = ""
    """The user's line of Python, and the job; empty if nothing shows."""
    lacks_executor: bool = False
    """A job runs, and no executor is there for it."""


def look(application: SparkApplication, thread: int) -> PlanningWait:
    """What planning in this thread waits for. A job gets an executor, if none is asked for yet."""
    assert application.session is not None
    line, job = running_line(thread), running_job(application.session.sparkContext)
    if job is None:
        return PlanningWait(line or "")
    application.request_for_job()
    _, cores = application.registered(query_runs=False)
    how = "" if cores else ", and waits for an executor"
    return PlanningWait("; ".join(filter(None, (line, f"{job}{how}"))), lacks_executor=not cores)


def running_job(context: SparkContext) -> str | None:
    """The job that runs, by the place that has started it; None if there is none.

    No query runs, so it is a job of the plan: the schema of a file is looked for, or a table read.
    """
    tracker = context.statusTracker()
    for job in tracker.getActiveJobsIds():
        info = tracker.getJobInfo(job)
        stages = [] if info is None else [tracker.getStageInfo(stage) for stage in info.stageIds]
        known = [stage for stage in stages if stage is not None]
        if known:
            done, tasks = (sum(numbers) for numbers in zip(
                *((stage.numCompletedTasks, stage.numTasks) for stage in known), strict=True
            ))  # fmt: skip
            return f"{known[-1].name} has run {done} of {tasks} tasks"
    return None


def running_line(thread: int) -> str | None:
    """The user's line of Python that runs in this thread; None if there is none.

    It is the first one outside of Penstock's own code, not that of a library which it calls.
    """
    frame, users_frame = sys._current_frames().get(thread), None
    while frame is not None:
        if _OWN_PACKAGE in Path(frame.f_code.co_filename).parents:
            break
        users_frame = frame if _is_users(frame) else users_frame
        frame = frame.f_back
    if frame is None or users_frame is None:
        return None
    return f"{Path(users_frame.f_code.co_filename).name}, line {users_frame.f_lineno}"


def _is_users(frame: FrameType) -> bool:
    """Whether it is neither of Python's import nor of pyspark, which Penstock's code also calls."""
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return module not in ("importlib", "pyspark", "py4j")
