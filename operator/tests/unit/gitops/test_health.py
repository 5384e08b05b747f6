"""Health and actions of a stream in Argo CD, in its Lua 5.1, and health in Flux, in CEL.

On statuses of the operator.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.api.v1alpha1.status import StreamState
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster
from testkit.operations.argo_cd_scripts import customization
from testkit.operations.flux_health import health_checks

ARGO_CD, FLUX = customization(), health_checks()


def settled(cluster: FakeCluster) -> None:
    """The stream runs."""


def suspended(cluster: FakeCluster) -> None:
    cluster.apply(suspend=True)
    cluster.settle()


def paused(cluster: FakeCluster) -> None:
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    cluster.settle()


def edited(cluster: FakeCluster) -> None:
    cluster.apply(executor={"cores": 2})


def edited_with_an_invalid_spec(cluster: FakeCluster) -> None:
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()


def rolling_out(cluster: FakeCluster) -> None:
    edited(cluster)
    cluster.reconcile()
    cluster.reconcile()


def restarting(cluster: FakeCluster) -> None:
    cluster.report(state=QueryState.RESTARTING, last_failure=samples.FAILURE, committed=False)
    cluster.settle()


def waiting_for_cores(cluster: FakeCluster) -> None:
    cluster.report(state=QueryState.WAITING_FOR_CORES, committed=False)
    cluster.settle()


def completed(cluster: FakeCluster) -> None:
    cluster.report(state=QueryState.COMPLETED)
    cluster.settle()


def stalled(cluster: FakeCluster) -> None:
    failure = samples.FAILURE.model_copy(update={"permanent": True})
    cluster.report(state=QueryState.FAILED, last_failure=failure)
    cluster.settle()


@pytest.mark.parametrize(
    ("cause", "status", "words", "in_flux"),
    [
        (settled, "Healthy", "Running", "Current"),
        (completed, "Healthy", "Completed", "Current"),
        (suspended, "Suspended", "Suspended", "Current"),
        (paused, "Suspended", "ReconciliationPaused", "Current"),
        (edited, "Progressing", "not looked at", "InProgress"),
        (rolling_out, "Progressing", "RollingOut", "InProgress"),
        (waiting_for_cores, "Progressing", "WaitingForCores", "InProgress"),
        (restarting, "Degraded", "Boom", "InProgress"),
        (stalled, "Degraded", "Boom", "Failed"),
        (edited_with_an_invalid_spec, "Degraded", "UnsupportedOperation", "Failed"),
    ],
)
def test_health(
    cause: Callable[[FakeCluster], None], status: str, words: str, in_flux: str
) -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cause(cluster)
    found, message = ARGO_CD.health(cluster.stream)
    assert found == status
    assert words in message
    assert FLUX.health(cluster.stream) == in_flux


def test_a_stream_without_a_status_is_progressing() -> None:
    assert ARGO_CD.health(samples.stored())[0] == "Progressing"
    assert FLUX.health(samples.stored()) == "Unknown"


def test_a_stream_that_is_being_deleted_is_in_progress_in_flux(cluster: FakeCluster) -> None:
    metadata = {**cluster.stream["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert FLUX.health({**cluster.stream, "metadata": metadata}) == "InProgress"


def act(cluster: FakeCluster, action: str) -> None:
    """Clicks on an action that Argo CD offers."""
    assert ARGO_CD.offered(cluster.stream)[action]
    cluster.apply(**ARGO_CD.after(action, cluster.stream)["spec"])
    cluster.settle()


def test_every_action_does_what_it_says(cluster: FakeCluster) -> None:
    assert ARGO_CD.offered(cluster.stream).keys() == ARGO_CD.actions.keys()
    revision = cluster.pod_hash
    act(cluster, "restart")
    assert cluster.pod_hash != revision
    act(cluster, "suspend")
    assert cluster.state == StreamState.SUSPENDED
    assert not ARGO_CD.offered(cluster.stream)["suspend"]
    act(cluster, "resume")
    assert cluster.state == StreamState.RUNNING


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster with one running stream."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    return cluster
