"""A query with state whose checkpoint is in an object store: it needs no volume.

The store's certificate is of an authority of its own, as docs/how-to/object-store.md has it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.chaos.faults import QUICK_EVICTION
from penstock.driver.background_threads import repeat_in_background
from testkit.cluster.install import Installation
from testkit.cluster.object_store import ClusterObjectStore, running_object_store
from testkit.cluster.stream import Stopwatch, Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.topics import Topics
from testkit.kubernetes.kubectl import Kube, Object
from testkit.object_store.client import REGION
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import COUNTS, MICRO_BATCH, kafka_to_kafka
from testkit.wait import wait_for

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

NUMBERS = range(20)
TRUSTSTORE = "-Djavax.net.ssl.trustStore=/authorities/bundle.jks"


@pytest.fixture
def store(installation: Installation, kube: Kube) -> Iterator[ClusterObjectStore]:
    with running_object_store(installation.cluster, kube.namespace) as running:
        yield running


def in_store(store: ClusterObjectStore, bucket: str) -> dict[str, Any]:
    return {
        "objectStore": {
            "location": f"s3a://{bucket}/streams",
            "endpoint": store.endpoint,
            "region": REGION,
            "pathStyleAccess": True,
            "accessKeyIdSecret": {"name": store.secret, "key": store.access_key_entry},
            "secretAccessKeySecret": {"name": store.secret, "key": store.secret_key_entry},
        }
    }


def authorities(store: ClusterObjectStore, role: str) -> dict[str, Any]:
    """The spec of the pod template that mounts the truststore."""
    mount = {"name": "authorities", "mountPath": "/authorities", "readOnly": True}
    volume = {"name": "authorities", "configMap": {"name": store.authorities}}
    return {"volumes": [volume], "containers": [{"name": role, "volumeMounts": [mount]}]}


@dataclass
class Counting:
    """A stream that counts how often each number was sent."""

    stream: Stream
    topics: Topics
    source: str
    sink: str
    sends: int = 0

    @classmethod
    def started(
        cls,
        installation: Installation,
        kube: Kube,
        topic: str,
        store: ClusterObjectStore,
        name: str,
        *,
        bucket: str = "",
        tolerant: bool = False,
    ) -> Counting:
        """A new stream; a tolerant one leaves a node that is lost within seconds."""
        external = installation.kafka.external
        it = cls(Stream(kube, name), Topics(external), f"{topic}-in", f"{topic}-out")
        create_topics(external, {it.source: 2, it.sink: 1})
        spec = kafka_to_kafka(
            installation.kafka.internal, it.source, it.sink, MICRO_BATCH,
            transform=COUNTS, outputMode="update",
            checkpoint=in_store(store, bucket or store.bucket),
        )  # fmt: skip
        stream = small_stream(name, spec)
        for role in ("driver", "executor"):
            stream["spec"][role].setdefault("javaOptions", []).append(TRUSTSTORE)
            template = authorities(store, role)
            if tolerant:
                template["tolerations"] = QUICK_EVICTION
            stream["spec"][role]["podTemplate"] = {"spec": template}
        kube.apply(stream)
        return it

    @contextlib.contextmanager
    def traffic(self) -> Iterator[None]:
        """Sends all numbers twice a second; the block begins with the first commits."""
        with repeat_in_background(self._send, 0.5):
            self.stream.wait_ready()
            _wait_for_commit(self.stream, "the first commits")
            yield

    def _send(self) -> None:
        self.topics.send(self.source, NUMBERS)
        self.sends += 1

    def driver(self) -> Object:
        return self.stream.kube.get("pod", self.stream.driver_pod) or {"metadata": {"uid": None}}

    def wait_exact(self) -> None:
        """Waits until each number was counted as often as it was sent."""
        wait_for(
            "the exact counts",
            lambda: self.topics.last_values(self.sink) == dict.fromkeys(NUMBERS, self.sends),
            60,
            detail=lambda: f"{self.sends}: {self.topics.last_values(self.sink)}",
        )


@pytest.mark.proves(8)
def test_counts_are_exact_through_the_loss_of_driver_and_executor(
    installation: Installation,
    kube: Kube,
    topic: str,
    store: ClusterObjectStore,
    record_figure: RecordFigure,
) -> None:
    """The next driver takes over at once if the one before has stopped, and waits if it was deleted
    by force. What is wrong with the store is in the status.
    """
    bucket = f"{store.bucket}-later"
    flow = Counting.started(installation, kube, topic, store, "counter", bucket=bucket)
    stream = flow.stream
    stream.wait_stalled("BucketNotFound")
    store.store.make_bucket(bucket)
    with flow.traffic():
        location = f"s3a://{bucket}/streams/{kube.namespace}/{stream.name}"
        assert stream.status()["effective"]["checkpointLocation"] == location
        assert kube.select("pvc", stream.selector) == []
        executor = stream.executors()[0]["metadata"]["name"]
        for what, pod, *options in (
            ("an executor was deleted", executor),
            ("the driver was deleted", stream.driver_pod),
            ("the driver was deleted by force", stream.driver_pod, "--grace-period=0", "--force"),
        ):
            watch = Stopwatch()
            kube.run("delete", "pod", pod, *options)
            _wait_for_commit(stream, f"commits after {what}")
            record_figure(f"seconds until the status shows commits after {what}", watch.seconds)
    flow.wait_exact()
    record_figure("batches sent", flow.sends)
    assert stream.restarts("query") == 0
    stream.edit(suspend=True)
    stream.wait_for("no driver", lambda: kube.get("pod", stream.driver_pod) is None, 120)
    for key in store.store.names(bucket):
        store.store.delete(bucket, key)
    stream.edit(suspend=False)
    stream.wait_stalled("CheckpointMissing")


def _wait_for_commit(stream: Stream, what: str) -> None:
    before = stream.epoch()
    stream.wait_for(what, lambda: stream.epoch() > before + 1, 240)


@pytest.mark.timeout(1500)
def test_counts_are_exact_when_the_node_of_driver_and_executors_is_lost(
    installation: Installation,
    kube: Kube,
    topic: str,
    store: ClusterObjectStore,
    spare_node: str,
    record_figure: RecordFigure,
) -> None:
    """The driver that Kubernetes has lost runs on until it finds out; the next one waits for its
    lease, on the other node, and loads the state there.
    """
    flow = Counting.started(installation, kube, topic, store, "wanderer", tolerant=True)
    cluster, stream = installation.cluster, flow.stream
    with flow.traffic():
        cluster.kube().run("uncordon", spare_node)
        cluster.kube().run("cordon", cluster.nodes[0])
        kube.run("delete", "pod", "--selector", stream.selector)
        _wait_for_commit(stream, "commits on the other node")
        nodes = {pod["spec"]["nodeName"] for pod in (*stream.executors(), flow.driver())}
        assert nodes == {spare_node}
        lost = flow.driver()
        cluster.kube().run("uncordon", cluster.nodes[0])
        cluster.kube().run("cordon", spare_node)
        watch = Stopwatch()
        cluster.on_node(spare_node, "systemctl", "stop", "kubelet")
        stream.wait_for(
            "its node named",
            lambda: stream.condition("Ready").get("reason") == "DriverNodeUnreachable",
            240,
        )
        taint = stream.condition("Ready")["message"].split("`")[1].split()
        assert taint.pop(0) == "kubectl"
        kube.run(*taint)
        uid = lost["metadata"]["uid"]
        stream.wait_for("another", lambda: flow.driver()["metadata"]["uid"] != uid, 240)
        _wait_for_commit(stream, "commits on the first node again")
        record_figure(
            "seconds until the status shows commits after its node was lost", watch.seconds
        )
        assert flow.driver()["spec"]["nodeName"] == cluster.nodes[0]
    flow.wait_exact()
