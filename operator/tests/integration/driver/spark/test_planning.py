"""A query may take long to be planned: what it waits for is said, and nothing is killed for it."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract.driver_report import QueryState
from penstock.driver.failures import Failure
from penstock.driver.hang_guard import HangGuard
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.driver_process import driver
from testkit.driver.in_process_driver import running
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH, RATE, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(300)

# The limit of other steps, which none of them reaches.
_STEP_SECONDS = 20.0
_SLEEPS = """
import time

def passes(source):
    time.sleep({seconds})
    return source.select("value")
"""


_RUNS_A_JOB = """
def passes(source):
    sleep = "java_method('java.lang.Thread', 'sleep', 12000L + id) AS slept"
    source.sparkSession.range(0, 1, 1, 1).selectExpr(sleep).collect()
    return source.select("value")
"""


def sleeps(seconds: float, **spec: Any) -> Any:
    python = {"function": "lookup:passes", "inline": _SLEEPS.format(seconds=seconds)}
    return stream(RATE, {"noop": {}}, transform={"python": python}, **spec)


@pytest.mark.proves("failures.md#planning-the-query-takes-long")
@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_a_transform_that_is_planned_for_long_comes_up(
    jvm: Jvm, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    """Such as one that loads a model. The JVM answers meanwhile, so nothing hangs."""
    flow = sleeps(_STEP_SECONDS + 2, trigger=trigger)
    policy = replace(RestartPolicy.from_spec(flow.spec), step_timeout=_STEP_SECONDS)
    hangs: list[Failure] = []
    with running(flow, jvm, tmp_path, policy) as it:
        stopped = HangGuard(ask_interval=0.2).watch(
            it.health, jvm.answers, jvm.cpu_seconds, hangs.append
        )
        it.wait_ready()
        stopped.set()
    assert hangs == []
    words = r"Planning the query for (1|2)0 s: inline, line 5"
    said = [report for report in it.reports if re.fullmatch(words, report.message)]
    assert {report.state for report in said} == {QueryState.STARTING}
    assert it.last.last_failure is None


@pytest.mark.proves("failures.md#planning-the-query-takes-long")
def test_a_job_of_the_plan_waits_for_no_executor_where_the_driver_runs_it(
    jvm: Jvm, tmp_path: Path
) -> None:
    python = {"function": "lookup:passes", "inline": _RUNS_A_JOB}
    flow = stream(RATE, {"noop": {}}, transform={"python": python}, trigger=CONTINUOUS)
    with running(flow, jvm, tmp_path) as it:
        it.wait_ready()
    said = [report for report in it.reports if report.message.startswith("Planning the query")]
    assert {report.state for report in said} == {QueryState.STARTING}
    messages = {report.message for report in said}
    words = "Planning the query for 10 s: inline, line 4"
    assert f"{words}; collect at inline:4 has run 0 of 1 tasks" in messages
    assert not any("executor" in message for message in messages)


@pytest.mark.proves("failures.md#the-drivers-jvm-is-frozen")
def test_a_jvm_that_does_not_answer_while_a_query_is_planned_is_killed(
    class_path: str, tmp_path: Path
) -> None:
    with driver(sleeps(3600), tmp_path, class_path) as process:
        wait_for("planned", lambda: "check_query" in process.log.read_text())
        os.kill(process.jvm, signal.SIGSTOP)
        assert process.process.wait(120) == 1
    failure = LastFailure.model_validate_json(process.termination_log.read_text())
    assert failure.reason == "DriverHung"
    assert "The JVM has not answered for " in failure.message
