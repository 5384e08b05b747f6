"""Applying twice, deleting, coming back, and a query that can never run."""

from __future__ import annotations

import pytest

from e2e.cluster_stream import KIND, Stopwatch, Stream, kafka_to_kafka, manifest
from e2e.install import Installation
from testkit.cluster.traffic import Receiver, Sender, create_topics
from testkit.kubernetes.kubectl import Kube, Object, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CHILDREN = ("statefulset", "configmap", "serviceaccount", "rolebinding", "persistentvolumeclaim")
RATE: Object = {
    "source": {"rate": {"rowsPerSecond": 5}},
    "sink": {"console": {}},
    "trigger": {"continuous": {"checkpointInterval": "1s"}},
}


def _versions(kube: Kube, stream: Stream) -> dict[str, str]:
    """What changes with any write: each child's resourceVersion (a StatefulSet's generation)."""
    found = {}
    for kind in CHILDREN:
        for each in kube.select(kind, stream.selector):
            meta = each["metadata"]
            found[f"{kind}/{meta['name']}"] = str(
                meta["generation"] if kind == "statefulset" else meta["resourceVersion"]
            )
    return found


def test_applying_the_same_manifest_twice_changes_nothing(kube: Kube) -> None:
    """No child is written again and no status either, beyond the numbers of the driver's beat."""
    stream = Stream(kube, "twice")
    kube.apply(manifest(stream.name, RATE))
    stream.wait_ready()
    before, generation = _versions(kube, stream), stream.resource()["metadata"]["generation"]
    transitions = [each["lastTransitionTime"] for each in stream.status()["conditions"]]
    assert len(before) == len(CHILDREN)
    assert "unchanged" in kube.apply(manifest(stream.name, RATE))
    epoch = stream.epoch()
    wait_for("a few beats", lambda: stream.epoch() > epoch + 1, 60, stream.situation)
    assert _versions(kube, stream) == before
    assert stream.resource()["metadata"]["generation"] == generation
    assert [each["lastTransitionTime"] for each in stream.status()["conditions"]] == transitions
    kube.delete(KIND, stream.name)


def test_a_retained_checkpoint_outlives_its_stream(
    installation: Installation, kube: Kube, topic: str
) -> None:
    """Deleted, nothing runs and the volume stays; created again, it goes on where it was."""
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, **{source: 2, sink: 1})
    stream = Stream(kube, "retained")
    spec = manifest(stream.name, kafka_to_kafka(installation.kafka.internal, source, sink))
    with Receiver(external, sink) as out:
        kube.apply(spec)
        stream.wait_ready()
        with Sender(external, source, 200, 500) as numbers:
            numbers.wait_until_sent(500, 60)
        out.wait_for_all(range(500), 60)
        epoch = stream.epoch()
        wait_for("a commit after the last record", lambda: stream.epoch() > epoch + 1, 60)

        kube.delete(KIND, stream.name)
        wait_for("nothing left", lambda: not _left(kube, stream), 120)
        assert kube.get("pvc", "retained-checkpoint") is not None

        before = out.arrivals.duplicates
        kube.apply(spec)
        stream.wait_ready()
        with Sender(external, source, 200, 600) as numbers:  # 0..599: the first 500 once more
            numbers.wait_until_sent(600, 60)
        out.wait_for_all(range(600), 60)
        # Starting anew would have brought the first 500 a third time.
        assert out.arrivals.duplicates - before == 500
    kube.delete(KIND, stream.name)


def _left(kube: Kube, stream: Stream) -> list[str]:
    kinds = "pods,configmaps,statefulsets,serviceaccounts,rolebindings"
    return [each["metadata"]["name"] for each in kube.select(kinds, stream.selector)]


def test_a_checkpoint_under_delete_goes_with_its_stream(kube: Kube) -> None:
    """The volume claim is garbage-collected with the resource."""
    stream = Stream(kube, "deleted")
    spec = {**RATE, "checkpoint": {"volume": {"reclaimPolicy": "Delete"}}}
    kube.apply(manifest(stream.name, spec))
    wait_for("its volume claim", lambda: kube.get("pvc", "deleted-checkpoint"), 60)
    kube.delete(KIND, stream.name)
    wait_for("nothing left", lambda: not _left(kube, stream), 120)
    wait_for("no volume claim", lambda: kube.get("pvc", "deleted-checkpoint") is None, 120)


def test_an_aggregate_ends_stalled_and_recovers_when_corrected(
    kube: Kube, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused by the operator, before a driver is started, with the operation's name."""
    stream = Stream(kube, "aggregate")
    watch = Stopwatch()
    kube.apply(manifest(stream.name, {**RATE, "transform": {"sql": "SELECT count(*) FROM source"}}))
    wait_for(
        "Stalled", lambda: stream.condition("Stalled").get("status") == "True", 30, stream.situation
    )
    with capsys.disabled():
        print(f"\nan aggregate is Stalled after {watch.seconds:.1f} s")
    assert "Aggregate" in stream.condition("Stalled")["message"]
    assert stream.status()["state"] == "Stalled"
    assert kube.select("pods", stream.selector) == []
    kube.apply(manifest(stream.name, RATE))
    stream.wait_ready()
    assert stream.condition("Stalled")["status"] == "False"
    kube.delete(KIND, stream.name)


# Spark's analyser knows better than our parser what a function is: only it can refuse this one.
BEYOND_THE_PARSER = "SELECT value, no_such_function(value) AS x FROM source"


def test_what_only_spark_can_refuse_ends_stalled_too(kube: Kube) -> None:
    """The driver lets go of its executors, stays up, restarts nothing, and says why."""
    stream = Stream(kube, "analysis")
    kube.apply(manifest(stream.name, {**RATE, "transform": {"sql": BEYOND_THE_PARSER}}))
    wait_for(
        "Stalled",
        lambda: stream.condition("Stalled").get("status") == "True",
        240,
        stream.situation,
    )
    assert "no_such_function" in stream.condition("Stalled")["message"]
    wait_for("no executors", lambda: stream.executors() == [], 60, stream.situation)
    assert stream.status().get("restarts", {}).get("total", 0) == 0
    kube.apply(manifest(stream.name, RATE))
    stream.wait_ready()
    kube.delete(KIND, stream.name)
