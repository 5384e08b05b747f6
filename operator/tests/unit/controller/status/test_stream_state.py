"""The state and reason of a stream, for every case that users must tell apart."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract.driver_report import QueryState
from penstock.controller.objects import Manifest
from penstock.controller.observed.children import ObservedChildren
from penstock.controller.status.stream_state import Assessment, assess_driver
from testkit.controller import samples

HASH = "0123456789"
TOPIC = LastFailure(reason="TopicMissing", message="make it", permanent=True, time=samples.T0)
BROKER = LastFailure(reason="BrokerGone", message="wait", permanent=False, time=samples.T0)
SCHEDULER = "0/3 nodes are available: 3 Insufficient cpu."
UNSCHEDULABLE: dict[str, Any] = {
    "phase": "Pending",
    "containerStatuses": [],
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": SCHEDULER,
        }
    ],
}


def assess(pod: Manifest | None, *executors: Manifest, restarting: bool = False) -> Assessment:
    pods = (*executors, *([pod] if pod else []))
    children = ObservedChildren(stateful_set=samples.stateful_set(), pods=pods)
    return assess_driver(samples.NAME, HASH, children, restarting=restarting)


def pod(report: Any = None, **status: Any) -> Manifest:
    return samples.driver_pod(HASH, report, **status)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [samples.container(state=state)]}


def exited(code: int, reason: str = "Error", message: str = "", **more: Any) -> dict[str, Any]:
    end = {
        "exitCode": code,
        "reason": reason,
        "message": message,
        "finishedAt": "2026-11-21T00:00:00Z",
    }
    state = more.pop("state", {"terminated": end})
    status = samples.container(state=state, lastState={"terminated": end}, restartCount=1)
    return {"containerStatuses": [status]}


def report(state: QueryState = QueryState.RUNNING, **fields: Any) -> Any:
    return samples.report(HASH, state=state, **fields)


UNREADY = {"conditions": [{"type": "Ready", "status": "False"}]}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}


@pytest.mark.parametrize(
    ("driver", "state", "reason"),
    [
        (None, "Pending", "NoDriverPod"),
        (samples.driver_pod("another"), "Starting", "RollingOut"),
        (pod(**UNSCHEDULABLE), "Pending", "Unschedulable"),
        (pod(**waiting("ContainerCreating")), "Pending", "DriverStarting"),
        (pod(**waiting("ImagePullBackOff", "not found")), "Pending", "ImagePullBackOff"),
        (pod(**waiting("InvalidImageName", "bad")), "Pending", "InvalidImageName"),
        (pod(**exited(1)), "Restarting", "DriverRestarting"),
        (pod(**exited(1, state=BACK_OFF)), "Restarting", "CrashLoopBackOff"),
        (pod(**exited(1, message=TOPIC.model_dump_json(by_alias=True))), "Stalled", "TopicMissing"),
        (pod(), "Starting", "DriverStarting"),
        (pod(samples.report("another")), "Starting", "DriverStarting"),
        (pod(report(QueryState.STARTING)), "Starting", "QueryStarting"),
        (pod(report(QueryState.WAITING_FOR_CORES)), "WaitingForCores", "WaitingForCores"),
        (pod(report(QueryState.RESTARTING, last_failure=BROKER)), "Restarting", "BrokerGone"),
        (pod(report(QueryState.RESTARTING)), "Restarting", "QueryRestarting"),
        (pod(report(QueryState.STOPPING)), "Restarting", "DriverStopping"),
        (pod(report(QueryState.FAILED, last_failure=TOPIC)), "Stalled", "TopicMissing"),
        (pod(report(QueryState.FAILED)), "Stalled", "QueryFailed"),
        (pod(report(committed=False)), "Starting", "WaitingForFirstEpoch"),
        (pod(report(), **UNREADY), "Starting", "DriverNotReady"),
        (pod(report()), "Running", "Running"),
        (pod(report(QueryState.COMPLETED)), "Completed", "Completed"),
        (pod(report(QueryState.COMPLETED), **UNREADY), "Starting", "DriverNotReady"),
    ],
)  # fmt: skip
def test_each_case_has_its_state_and_reason(
    driver: Manifest | None, state: str, reason: str
) -> None:
    assessment = assess(driver)
    assert (assessment.state, assessment.reason) == (state, reason)
    assert assessment.message
    assert assessment.ready == (state in ("Running", "Completed"))
    assert assessment.stalled == (state == "Stalled")


def test_a_stream_that_ran_before_is_restarting_when_its_pod_is_missing() -> None:
    assert assess(None, restarting=True).state == "Restarting"


def test_a_terminating_pod_is_not_ready_whatever_it_reports() -> None:
    terminating = pod(report())
    terminating["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert assess(terminating).reason == "DriverStopping"


def test_a_pod_of_another_stateful_set_is_ignored() -> None:
    other = pod(report())
    other["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "uid": "set-0"}]
    assert assess(other).reason == "NoDriverPod"


def test_the_message_quotes_the_scheduler() -> None:
    assert SCHEDULER in assess(pod(**UNSCHEDULABLE)).message


def test_missing_cores_are_explained_by_the_executors_pods() -> None:
    executors = (samples.executor_pod(1, **UNSCHEDULABLE), samples.executor_pod(2, **UNSCHEDULABLE))
    assessment = assess(pod(report(QueryState.WAITING_FOR_CORES, message="2/4 cores")), *executors)
    assert assessment.message.startswith("2/4 cores")
    assert assessment.message.count(SCHEDULER) == 1


def test_a_stream_that_falls_behind_is_ready_and_says_so() -> None:
    assessment = assess(pod(report(message="Epochs take more than three times the interval")))
    assert assessment.ready
    assert assessment.message.startswith("Epochs take")


def test_the_status_never_quotes_the_log() -> None:
    """Without a termination message the kubelet puts the end of the log there."""
    assessment = assess(pod(**exited(1, message="password=hunter2")))
    assert "hunter2" not in assessment.message
    assert "exit code 1" in assessment.message


@pytest.mark.parametrize(
    ("end", "words"),
    [((137, "OOMKilled"), "spec.driver.resources.limits.memory"), ((137, "Error"), "signal 9")],
)
def test_an_exit_without_a_termination_message_is_explained(
    end: tuple[int, str], words: str
) -> None:
    assert words in assess(pod(**exited(*end))).message


def test_a_query_that_waits_for_its_source_is_not_called_restarted() -> None:
    left_running = report(QueryState.RESTARTING, last_failure=BROKER, committed=True)
    failed = report(QueryState.RESTARTING, last_failure=BROKER, committed=False)
    assert "waits for its source" in assess(pod(left_running)).message
    assert "restarted from its checkpoint" in assess(pod(failed)).message
