"""The state and reason of a stream, for every case that users must tell apart."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.api.v1alpha1.status import Internal, LastFailure, StreamStatus
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Claim, Event, Object, StatefulSet
from penstock.cluster.pods import DriverPod, Pod
from penstock.cluster.stream import Stream
from penstock.cluster.stream_state import (
    Assessment,
    RunningParts,
    assess_driver,
    assess_suspended,
    has_revoked_token,
)
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
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


def assess(
    pod: Manifest | None,
    *executors: Manifest,
    events: tuple[Event, ...] = (),
    claim: Manifest | None = None,
    last_hash: str | None = None,
) -> Assessment:
    parts = RunningParts(
        stateful_set=StatefulSet(samples.stateful_set()),
        claim=Claim(claim) if claim else None,
        pods=tuple(map(Pod, (*executors, *([pod] if pod else [])))),
        events=events,
    )
    internal = Internal(driver_pod_uid="pod-0", pod_hash=last_hash) if last_hash else None
    status = StreamStatus(internal=internal)
    return assess_driver(stream(status), HASH, parts, samples.T0)


def stream(status: StreamStatus) -> Stream:
    dumped = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Stream({**samples.stored(), "status": dumped})


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
        (pod(report(QueryState.STARTING)), "Starting", "QueryStarting"),
        (pod(report(QueryState.STARTING, query_runs=True)), "Starting", "WaitingForFirstEpoch"),
        (pod(report(QueryState.WAITING_FOR_CORES)), "WaitingForCores", "WaitingForCores"),
        (pod(report(QueryState.RESTARTING, last_failure=BROKER)), "Restarting", "BrokerGone"),
        (pod(report(QueryState.RESTARTING)), "Restarting", "QueryRestarting"),
        (pod(report(QueryState.STOPPING)), "Restarting", "DriverStopping"),
        (pod(report(QueryState.FAILED, last_failure=TOPIC)), "Stalled", "TopicMissing"),
        (pod(report(QueryState.FAILED)), "Stalled", "QueryFailed"),
        (pod(report(committed=False)), "Running", "Running"),
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


def test_a_stream_that_ran_before_is_restarting_when_its_pod_is_missing() -> None:
    assert assess(None, last_hash=HASH).state == "Restarting"


def test_a_terminating_pod_is_not_ready_whatever_it_reports() -> None:
    terminating = pod(report())
    terminating["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert assess(terminating).reason == "DriverStopping"


@pytest.mark.parametrize(
    ("account", "wrote", "void"),
    [
        ("23:59:59", None, False),
        ("00:00:00", None, False),
        ("00:00:01", None, True),
        ("00:00:01", "00:00:01", True),
        # The API server knows for ten seconds what it has found valid.
        ("00:01:00", "00:01:10", True),
        # The kubelet has fetched a token of the new account.
        ("00:01:00", "00:50:00", False),
        (None, None, False),
    ],
)
def test_a_token_ends_with_its_service_account(
    account: str | None, wrote: str | None, void: bool
) -> None:
    driver = pod(report())
    driver["spec"]["serviceAccountName"] = "flags-driver"
    day = "2026-11-20" if account == "23:59:59" else "2026-11-21"
    if wrote is not None:
        times = [{"manager": "penstock-driver", "time": f"2026-11-21T{wrote}Z"}]
        driver["metadata"]["managedFields"] = times
    metadata = {"name": "flags-driver", "creationTimestamp": f"{day}T{account}Z"}
    parts = RunningParts(
        stateful_set=StatefulSet(samples.stateful_set()),
        pods=(Pod(driver),),
        driver_account=Object({"metadata": metadata}) if account else None,
    )
    assert has_revoked_token(parts) is void
    reason = assess_driver(stream(StreamStatus()), HASH, parts, samples.T0).reason
    assert reason == ("ServiceAccountRecreated" if void else "Running")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (UNREADY, "ApiServerUnauthorized"),
        ({**UNREADY, "state": BACK_OFF}, "ApiServerUnauthorized"),
        ({**UNREADY, "wrote": "00:00:01"}, "DriverNotReady"),
        ({}, "Running"),
    ],
)
def test_a_driver_that_cannot_report_says_so_when_it_ends(
    changes: dict[str, Any], reason: str
) -> None:
    """Its last report is older."""
    rejected = LastFailure(
        reason="ApiServerUnauthorized", message="401", permanent=False, time=samples.T0
    ).model_dump_json(by_alias=True)
    more = dict(changes)
    wrote = more.pop("wrote", "00:00:00")
    ended = exited(1, message=rejected, state=more.pop("state", {"running": {}}))
    driver = pod(report(), **ended, **more)
    times = [{"manager": "penstock-driver", "time": f"2026-11-21T{wrote}Z"}]
    driver["metadata"]["managedFields"] = times
    assert assess(driver).reason == reason


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


@pytest.mark.proves("failures.md#there-are-fewer-cores-than-partitions")
def test_executors_that_only_the_drivers_node_can_run_say_which_it_is_and_why() -> None:
    near = {"labelSelector": {"matchLabels": naming.stream_labels("numbers", "driver")}}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    tied = {
        **samples.executor_pod(1, **UNSCHEDULABLE),
        "spec": {"affinity": {"podAffinity": rules}},
    }
    driver = pod(report(QueryState.WAITING_FOR_CORES, message="0/4 cores"))
    driver["spec"] = {**driver.get("spec", {}), "nodeName": "node-7"}
    said = assess(driver, tied).message
    assert SCHEDULER in said
    assert "on the driver's: node-7. Make room there" in said
    free = samples.executor_pod(1, **UNSCHEDULABLE)
    assert "node-7" not in assess(driver, free).message


def test_a_stream_that_falls_behind_is_ready_and_says_so() -> None:
    assessment = assess(pod(report(message="Epochs take more than three times the interval")))
    assert assessment.ready
    assert assessment.message.startswith("Epochs take")


@pytest.mark.parametrize(
    ("epoch", "committed_at", "words"),
    [
        (137, samples.T0, "the last commit, epoch 137, was at 2026-11-21 00:00:00 UTC"),
        (None, None, "its checkpoint has no commit"),
    ],
)
def test_a_query_that_has_committed_nothing_is_not_said_to_commit(
    epoch: int | None, committed_at: datetime | None, words: str
) -> None:
    """After a switch of mode the newest commit is that of the query before."""
    waits = report(message="It waits", committed=False, epoch=epoch, last_commit_time=committed_at)
    message = assess(pod(waits)).message
    assert message == f"It waits. It has committed nothing since its start: {words}"
    assert assess(pod(report())).message == "The query runs and has committed epochs"


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
    left_running = report(QueryState.RESTARTING, last_failure=BROKER, query_runs=True)
    failed = report(QueryState.RESTARTING, last_failure=BROKER, committed=False)
    assert "is left running" in assess(pod(left_running)).message
    assert "restarted from its checkpoint" in assess(pod(failed)).message


def test_a_stream_that_waits_for_its_next_attempt_is_not_stalled() -> None:
    """A spec that has committed is tried again for ever. The message says when."""
    at = datetime(2026, 11, 21, 23, 5, 30, tzinfo=UTC)
    waiting = report(
        QueryState.RESTARTING, last_failure=BROKER, committed=False, next_retry_time=at
    )
    assessment = assess(pod(waiting))
    assert (assessment.ready, assessment.state) == (False, "Restarting")
    assert assessment.reason == BROKER.reason
    assert "at 23:05:30 UTC" in assessment.message


def event(uid: str, note: str, **more: Any) -> Event:
    raw = {
        "regarding": {"uid": uid},
        "reason": "FailedCreate",
        "note": note,
        "type": "Warning",
        "deprecatedLastTimestamp": "2026-11-21T00:00:00Z",
        **more,
    }
    return Event.parse(raw)


QUOTA = 'pods "flags-driver-0" is forbidden: exceeded quota: small'


def test_a_pod_that_cannot_be_created_is_explained_by_the_stateful_sets_events() -> None:
    """A quota or Pod Security refuses it, and no object's status says so."""
    old = event("set-1", "old", deprecatedLastTimestamp="2026-11-20T00:00:00Z")
    other = event("another", "other")
    found = assess(None, events=(old, event("set-1", QUOTA), other))
    assert (found.state, found.reason) == ("Pending", "FailedCreate")
    assert found.obstacles
    assert QUOTA in found.message


def test_events_from_before_the_stream_stopped_explain_nothing() -> None:
    old = event("set-1", QUOTA, deprecatedLastTimestamp="2026-11-20T23:59:00Z")
    assert assess(None, events=(old,), last_hash=HASH).reason == "NoDriverPod"


@pytest.mark.parametrize("phase", ["Pending", "Lost"])
def test_a_claim_without_a_volume_is_explained(phase: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "flags-checkpoint", "uid": "claim-1"},
        "status": {"phase": phase},
    }
    why = event("claim-1", "no such class", reason="ProvisioningFailed")
    found = assess(pod(**UNSCHEDULABLE), claim=claim, events=(why,))
    assert found.reason == "Unschedulable"
    reasons = ["ClaimLost" if phase == "Lost" else "ProvisioningFailed", "Unschedulable"]
    assert [each.reason for each in found.obstacles] == reasons  # the cause first
    assert SCHEDULER in found.message
    assert ("ProvisioningFailed: no such class" in found.message) == (phase == "Pending")
    assert ("its volume is gone" in found.message) == (phase == "Lost")


def test_a_pod_that_only_its_events_explain() -> None:
    """A volume that cannot be mounted leaves the pod in ContainerCreating for ever."""
    waits = pod(**waiting("ContainerCreating"))
    why = event("pod-1", "timed out waiting for the volume", reason="FailedMount")
    found = assess(waits, events=(why,))
    assert found.reason == "FailedMount"
    assert found.obstacles
    assert "timed out waiting" in found.message


def overdue(spec_hash: str) -> Manifest:
    """A pod that should have ended, on a node that does not confirm it."""
    lost = samples.driver_pod(spec_hash, report())
    lost["metadata"]["deletionTimestamp"] = "2026-11-20T23:59:00Z"
    lost["spec"] = {"nodeName": "node-7"}
    return lost


@pytest.mark.parametrize("spec_hash", [HASH, "another"])
def test_a_pod_whose_node_does_not_confirm_its_end_names_node_and_remedy(spec_hash: str) -> None:
    """Without a node Kubernetes replaces no pod of a StatefulSet, and says so nowhere."""
    found = assess(overdue(spec_hash))
    assert (found.state, found.reason) == ("Restarting", "DriverNodeUnreachable")
    assert found.obstacles
    assert "kubectl taint nodes node-7 node.kubernetes.io/out-of-service" in found.message


def test_a_pod_that_a_finalizer_keeps_is_not_blamed_on_its_node() -> None:
    """At once: its containers have ended, and nothing else keeps it."""
    held = overdue(HASH)
    held["metadata"]["finalizers"] = ["example.com/held"]
    assert assess(held).reason == "DriverNodeUnreachable"  # a container runs, nobody knows how long
    held["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:30Z"
    held["status"]["containerStatuses"] = [samples.container(state={"terminated": {}})]
    found = assess(held)
    assert (found.state, found.reason) == ("Restarting", "HeldByFinalizers")
    assert "example.com/held" in found.message
    assert '{"metadata":{"finalizers":null}}' in found.message
    held["metadata"]["finalizers"] = ["foregroundDeletion"]
    assert assess(held).reason != "HeldByFinalizers"


def test_a_suspended_stream_whose_node_is_away_still_stops() -> None:
    """Nobody knows whether its driver still writes to the checkpoint."""
    found = assess_suspended(DriverPod(overdue(HASH)), samples.T0)
    assert (found.state, found.reason) == ("Suspending", "DriverNodeUnreachable")


def test_attempts_to_pull_an_image_have_one_reason() -> None:
    """The kubelet alternates between two, which would be a change of the status each time."""
    reasons = {assess(pod(**waiting(each))).reason for each in ("ErrImagePull", "ImagePullBackOff")}
    assert reasons == {"ImagePullBackOff"}


def test_a_restart_that_cannot_pull_its_image_quotes_the_kubelet() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    found = assess(pod(**exited(1, state=state)))
    assert (found.state, found.reason) == ("Restarting", "ImagePullBackOff")
    assert "not found" in found.message
