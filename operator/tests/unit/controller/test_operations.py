"""A person suspends, restarts or pauses a stream, against a cluster in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.api.v1alpha1.status import LastFailure, Restarts, StreamState
from penstock.cluster import kinds
from penstock.cluster.kinds import Kind
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream_image import StreamImage
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.status.conditions import PROGRESS_DEADLINE
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

DRIVER = "StatefulSet flags-driver"
CLAIM = f"PersistentVolumeClaim {samples.NAME}-checkpoint"


def conditions(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in cluster.status.conditions}


def test_a_suspended_stream_has_no_driver_and_keeps_its_checkpoint(cluster: FakeCluster) -> None:
    cluster.apply(suspend=True)
    cluster.settle()
    assert cluster.pod is None
    assert {DRIVER, CLAIM} <= cluster.children()
    assert cluster.state == StreamState.SUSPENDED
    assert conditions(cluster) == {
        "Ready": ("False", "Suspended"),
        "Reconciling": ("False", "UpToDate"),
        "Stalled": ("False", "NotStalled"),
        "Warning": ("False", "NoWarnings"),
    }
    cluster.clock.advance(2 * PROGRESS_DEADLINE.total_seconds())
    assert cluster.reconcile() == []


def _is_invalid(cluster: FakeCluster) -> dict[str, Any]:
    return samples.AGGREGATE


def _has_a_foreign_object(cluster: FakeCluster) -> dict[str, Any]:
    policy = cluster.api.one(kinds.NETWORK_POLICY, "flags-driver")
    cluster.api.remove(policy)
    meta = {"name": "flags-driver", "namespace": "default"}
    cluster.api.put({**policy, "metadata": meta})
    return {}


def _has_lost_its_checkpoint(cluster: FakeCluster) -> dict[str, Any]:
    cluster.api.remove(cluster.api.one(kinds.CLAIM, "flags-checkpoint"))
    return {}


def _moves_its_checkpoint(cluster: FakeCluster) -> dict[str, Any]:
    return {"checkpoint": {"objectStore": {"location": "s3a://bucket/checkpoints"}}}


def _is_refused_an_object(cluster: FakeCluster) -> dict[str, Any]:
    cluster.api.remove(cluster.api.one(kinds.SERVICE_ACCOUNT, "flags-driver"))
    return _refuses(cluster, kinds.SERVICE_ACCOUNT, 403)


def _is_refused_an_edit(cluster: FakeCluster) -> dict[str, Any]:
    """By a policy that looks at the ConfigMap, which comes before the StatefulSet."""
    return {**_refuses(cluster, kinds.CONFIG_MAP, 422), "executor": {"cores": 2}}


def _refuses(cluster: FakeCluster, kind: Kind, code: int) -> dict[str, Any]:
    error = ApiError(code, "Refused", "no")
    cluster.api.refuse = lambda each: error if each["kind"] == kind.kind else None
    return {}


UNAPPLIED = {
    "UnsupportedOperation": _is_invalid,
    "ForeignObject": _has_a_foreign_object,
    "CheckpointMissing": _has_lost_its_checkpoint,
    "CheckpointElsewhere": _moves_its_checkpoint,
    "ApplyRefused": _is_refused_an_object,
    "ApplyRefused of an edit": _is_refused_an_edit,
}


@pytest.mark.proves("operate.md#suspend")
@pytest.mark.parametrize("reason", UNAPPLIED)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_a_stream_whose_spec_is_not_applied_can_be_suspended(
    cluster: FakeCluster, reason: str, at_once: bool
) -> None:
    """Who stops it need not put right first what keeps the rest; that is still said."""
    spec = UNAPPLIED[reason](cluster)
    if not at_once:
        cluster.apply(**spec)
        cluster.settle()
        assert conditions(cluster)["Stalled"] == ("True", reason.split()[0])
        assert cluster.pod is not None
    cluster.apply(**spec, suspend=True)
    cluster.settle()
    assert cluster.pod is None
    assert conditions(cluster)["Stalled"] == ("True", reason.split()[0])
    assert cluster.reconcile() == []


def test_a_stream_with_an_invalid_spec_says_that_it_is_suspended(cluster: FakeCluster) -> None:
    cluster.apply(**samples.AGGREGATE, suspend=True)
    cluster.settle()
    assert cluster.state == StreamState.SUSPENDED
    cluster.apply()
    cluster.settle()
    assert cluster.state == StreamState.RUNNING


def test_a_stream_that_still_stops_says_so(cluster: FakeCluster) -> None:
    cluster.apply(suspend=True)
    cluster.reconcile()
    cluster.reconcile()
    assert cluster.pod is not None
    assert cluster.state == StreamState.SUSPENDING  # who waits for Suspended finds no driver
    assert conditions(cluster)["Ready"] == ("False", "Suspending")
    assert conditions(cluster)["Reconciling"][0] == "True"


def test_a_resumed_stream_runs_the_same_revision_and_counts_no_restart(
    cluster: FakeCluster,
) -> None:
    revision = cluster.pod_hash
    cluster.apply(suspend=True)
    cluster.settle()
    cluster.apply()
    cluster.settle()
    assert (cluster.state, cluster.pod_hash) == (StreamState.RUNNING, revision)
    assert cluster.status.restarts == Restarts()


def test_a_stream_that_was_suspended_for_long_is_not_overdue_when_it_resumes(
    cluster: FakeCluster,
) -> None:
    cluster.apply(suspend=True)
    cluster.settle()
    cluster.clock.advance(timedelta(days=3).total_seconds())
    cluster.apply()
    cluster.reconcile()
    cluster.reconcile()
    unschedulable = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node",
    }  # fmt: skip
    cluster.step()
    cluster.put_pod(conditions=[unschedulable], containerStatuses=[], phase="Pending")
    cluster.reconcile()
    cluster.clock.advance(30)
    cluster.reconcile()
    assert conditions(cluster)["Ready"] == ("False", "Unschedulable")
    assert conditions(cluster)["Stalled"][0] == "False"


def test_a_new_stream_may_be_suspended_from_the_start() -> None:
    cluster = FakeCluster()
    cluster.apply(suspend=True)
    cluster.settle()
    assert (cluster.state, cluster.drivers_started) == (StreamState.SUSPENDED, [])


def test_a_restart_replaces_the_driver_and_counts_no_failure(cluster: FakeCluster) -> None:
    pod = cluster.pod
    cluster.apply(restartedAt="2026-11-22T07:00:00Z")
    cluster.settle()
    assert pod is not None
    assert cluster.pod is not None
    assert cluster.pod["metadata"]["uid"] != pod["metadata"]["uid"]
    assert cluster.state == StreamState.RUNNING
    assert cluster.status.restarts == Restarts()
    assert cluster.status.last_failure is None


def test_a_restart_ends_a_stall(cluster: FakeCluster) -> None:
    failure = LastFailure(reason="Boom", message="boom", permanent=True, time=samples.T0)
    cluster.report(state=QueryState.FAILED, last_failure=failure)
    cluster.settle()
    assert conditions(cluster)["Stalled"][0] == "True"
    cluster.apply(restartedAt="now")
    cluster.settle()
    assert cluster.state == StreamState.RUNNING


def test_a_paused_stream_is_left_alone_and_still_reported(cluster: FakeCluster) -> None:
    revision = cluster.pod_hash
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    cluster.apply(executor={"cores": 2})
    cluster.api.remove(cluster.api.one(kinds.NETWORK_POLICY, "flags-driver"))
    cluster.settle()
    assert cluster.pod_hash == revision
    assert "NetworkPolicy flags-driver" not in cluster.children()
    assert conditions(cluster)["Ready"] == ("True", "Running")
    assert conditions(cluster)["Reconciling"] == ("True", "ReconciliationPaused")
    cluster.report(epoch=99)
    cluster.settle()
    assert cluster.status.epoch == 99

    cluster.annotate(naming.ANNOTATION_PAUSE, "false")
    cluster.settle()
    assert cluster.pod_hash != revision
    assert "NetworkPolicy flags-driver" in cluster.children()


def test_nothing_is_recorded_of_a_paused_stream(cluster: FakeCluster) -> None:
    """Also if it becomes Ready with another spec meanwhile, and something else changes."""
    records = cluster.api.of_kind(kinds.CONTROLLER_REVISION)
    cluster.apply(executor={"cores": 2})
    while not cluster.reconcile() or cluster.step():
        if cluster.pod is not None and cluster.pod_hash != cluster.drivers_started[0]:
            break
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    for seconds in (0, 90, 90):
        cluster.step()
        cluster.clock.advance(seconds)
        cluster.report(query_restarts=seconds)
        assert set(cluster.reconcile()) <= {"status", "event"}
    assert conditions(cluster)["Ready"][0] == "True"
    assert cluster.api.of_kind(kinds.CONTROLLER_REVISION) == records


@pytest.mark.parametrize(
    ("word", "paused"),
    [
        ("true", True),
        ("True", True),
        ("yes", True),
        ("until Monday", True),
        ("false", False),
        ("No", False),
        ("", False),
    ],
)
def test_any_word_but_a_no_pauses_a_stream(cluster: FakeCluster, word: str, paused: bool) -> None:
    cluster.annotate(naming.ANNOTATION_PAUSE, word)
    cluster.apply(executor={"cores": 2})
    before = cluster.pod_hash
    cluster.settle()
    assert (cluster.pod_hash == before) is paused
    assert (conditions(cluster)["Reconciling"][1] == "ReconciliationPaused") is paused
    assert StreamImage.of(Object(cluster.stream)).stopped is paused


def test_a_long_pause_stalls_no_stream(cluster: FakeCluster) -> None:
    """The driver was taken down by hand during the maintenance."""
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    cluster.api.remove(cluster.api.one(kinds.STATEFUL_SET, "flags-driver"))
    cluster.settle()
    cluster.clock.advance(2 * PROGRESS_DEADLINE.total_seconds())
    cluster.reconcile()
    assert conditions(cluster)["Stalled"][0] == "False"
    assert conditions(cluster)["Ready"][0] == "False"


def with_old_template(cluster: FakeCluster) -> None:
    """Gives the driver the template of an older operator, or of one with other settings."""
    driver = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    (name,) = [each for each in Object(driver).annotations if each.endswith("/template")]
    driver["metadata"]["annotations"][name] = "of-an-older-operator"
    driver["spec"]["template"]["metadata"]["labels"]["older"] = "yes"
    cluster.api.put(driver)
    while cluster.step():  # until its pod runs
        pass
    cluster.settle()


def has_old_template(cluster: FakeCluster) -> bool:
    found = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    return "older" in found["spec"]["template"]["metadata"]["labels"]


def test_a_template_of_another_operator_stays_while_its_pod_runs(cluster: FakeCluster) -> None:
    """The next pod gets that of this one."""
    with_old_template(cluster)
    assert has_old_template(cluster)
    pod = cluster.pod
    assert pod is not None
    pod["metadata"]["deletionTimestamp"] = cluster.clock.text()
    cluster.api.put(pod)
    cluster.reconcile()
    assert not has_old_template(cluster)
    cluster.api.remove(pod)
    cluster.settle()
    assert cluster.pod is not None
    assert cluster.reconcile() == []


def test_a_template_of_another_operator_stays_while_its_pod_is_suspended(
    cluster: FakeCluster,
) -> None:
    """It is scaled as it is, so that the pod is not replaced before it ends."""
    with_old_template(cluster)
    for suspend in (True, False):
        cluster.apply(suspend=suspend)
        cluster.reconcile()
        assert has_old_template(cluster)
        driver = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
        assert driver["spec"]["replicas"] == int(not suspend)
        assert cluster.reconcile() == []
