"""A stream is applied twice, deleted and created again; a query that can never run is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.cluster_stream import KIND, Stopwatch, Stream, small_stream
from e2e.install import NAMESPACE, OPERATOR, RELEASE, Installation
from testkit.kubernetes.kubectl import Kube, Object
from testkit.plugins.figures import RecordFigure

pytestmark = pytest.mark.timeout(900)

CHILDREN = ("statefulset", "configmap", "serviceaccount", "rolebinding", "persistentvolumeclaim")
RATE: Object = {
    "source": {"rate": {"rowsPerSecond": 5}},
    "sink": {"console": {}},
    "trigger": {"continuous": {"checkpointInterval": "1s"}},
}


def _versions(kube: Kube, stream: Stream) -> dict[str, str]:
    """What any write changes: a child's resourceVersion (of a StatefulSet its generation)."""
    found = {}
    for kind in CHILDREN:
        for each in kube.select(kind, stream.selector):
            meta = each["metadata"]
            found[f"{kind}/{meta['name']}"] = str(
                meta["generation"] if kind == "statefulset" else meta["resourceVersion"]
            )
    return found


@dataclass(frozen=True)
class Corrected:
    """A stream that could never run, until its spec was corrected."""

    stream: Stream
    refused_after: float
    message: str
    pods: list[Object]
    """Its pods while it was refused."""


@pytest.fixture(scope="module")
def corrected(kube: Kube) -> Iterator[Corrected]:
    """Applies an aggregate in continuous mode, and then RATE; it is Ready."""
    stream = Stream(kube, "aggregate")
    watch = Stopwatch()
    kube.apply(
        small_stream(stream.name, {**RATE, "transform": {"sql": "SELECT count(*) FROM source"}})
    )
    stream.wait_for("Stalled", lambda: stream.condition("Stalled").get("status") == "True", 30)
    assert stream.status()["state"] == "Stalled"
    message = stream.condition("Stalled")["message"]
    corrected = Corrected(stream, watch.seconds, message, kube.select("pods", stream.selector))
    kube.apply(small_stream(stream.name, RATE))
    stream.wait_ready()
    yield corrected
    kube.delete(KIND, stream.name)


def test_an_aggregate_ends_stalled_and_recovers_when_corrected(
    corrected: Corrected, record_figure: RecordFigure
) -> None:
    """The operator refuses it before it starts a driver, and names the operation."""
    record_figure("seconds until an aggregate is Stalled", corrected.refused_after)
    assert "Aggregate" in corrected.message
    assert corrected.pods == []
    assert corrected.stream.condition("Stalled")["status"] == "False"


def test_the_release_passes_its_own_test(installation: Installation) -> None:
    """`helm test` runs `penstock doctor` in a pod of the operator's image."""
    cluster = installation.cluster
    cluster.run_helm(NAMESPACE, "test", RELEASE, "--timeout=180s")
    assert cluster.kube(NAMESPACE).get("pod", f"{OPERATOR}-test") is None


def test_applying_the_same_manifest_twice_changes_nothing(kube: Kube, corrected: Corrected) -> None:
    """No child is written again. Of the status, only the driver's periodic numbers change."""
    stream = corrected.stream
    before, generation = _versions(kube, stream), stream.resource()["metadata"]["generation"]
    transitions = [each["lastTransitionTime"] for each in stream.status()["conditions"]]
    assert len(before) == len(CHILDREN)
    assert "unchanged" in kube.apply(small_stream(stream.name, RATE))
    epoch = stream.epoch()
    stream.wait_for("two more epochs", lambda: stream.epoch() > epoch + 1, 60)
    assert _versions(kube, stream) == before
    assert stream.resource()["metadata"]["generation"] == generation
    assert [each["lastTransitionTime"] for each in stream.status()["conditions"]] == transitions


def test_a_running_stream_follows_its_log_level(kube: Kube, corrected: Corrected) -> None:
    """In driver and executors, and back, without another pod."""
    stream = corrected.stream
    before, restarts = _uids(kube, stream), stream.status().get("restarts")

    def logging_info(since: str) -> set[str]:
        """The pods that have logged a line of Spark's at this level."""
        line = '"level":"INFO","logger":"org.apache.spark'
        return {pod for pod in before if line in kube.run("logs", pod, f"--since={since}")}

    kube.apply(small_stream(stream.name, {**RATE, "observability": {"logLevel": "INFO"}}))
    stream.wait_for("INFO in all logs", lambda: logging_info("5m") == set(before), 120)
    kube.apply(small_stream(stream.name, RATE))
    stream.wait_for("no INFO in a log", lambda: not logging_info("5s"), 120)
    assert _uids(kube, stream) == before
    assert stream.status().get("restarts") == restarts


def _uids(kube: Kube, stream: Stream) -> dict[str, str]:
    found = kube.select("pods", stream.selector)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


def test_the_reclaim_policy_delete_removes_the_checkpoint_with_its_stream(kube: Kube) -> None:
    """Kubernetes garbage-collects the volume claim with the resource."""
    stream = Stream(kube, "deleted")
    spec = {**RATE, "checkpoint": {"volume": {"reclaimPolicy": "Delete"}}}
    kube.apply(small_stream(stream.name, spec))
    stream.wait_for("the volume claim", lambda: kube.get("pvc", "deleted-checkpoint"), 60)
    kube.delete(KIND, stream.name)
    stream.wait_for("no object left", lambda: not stream.objects_left(), 120)
    stream.wait_for("no volume claim", lambda: kube.get("pvc", "deleted-checkpoint") is None, 120)


# Only Spark's analyzer can refuse this: our parser does not know every function of Spark.
BEYOND_THE_PARSER = "SELECT value, no_such_function(value) AS x FROM source"


def test_what_only_spark_can_refuse_ends_stalled_too(kube: Kube) -> None:
    """The driver removes its executors, keeps running, restarts nothing, and reports the reason."""
    stream = Stream(kube, "analysis")
    kube.apply(small_stream(stream.name, {**RATE, "transform": {"sql": BEYOND_THE_PARSER}}))
    stream.wait_for(
        "Stalled",
        lambda: stream.condition("Stalled").get("status") == "True",
        240,
    )
    assert "no_such_function" in stream.condition("Stalled")["message"]
    stream.wait_for("no executors", lambda: stream.executors() == [], 60)
    assert stream.status().get("restarts", {}).get("total", 0) == 0
    kube.delete(KIND, stream.name)
