"""One stream from Kafka to Kafka: its cores, its Secret, and the checkpoint that it leaves.

The tests share its start, because that is what takes long, and run in their order.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster_stream import KIND, Stream, small_stream
from e2e.install import Installation
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube, Object
from testkit.streams.streams import kafka_to_kafka

pytestmark = pytest.mark.timeout(900)

PARTITIONS = 3
CORES_PER_EXECUTOR = 2
RECORDS = 500


@dataclass(frozen=True)
class Started:
    """The stream, which is Ready, its topic, and what arrives in the sink."""

    stream: Stream
    manifest: Object
    bootstrap: str
    source: str
    out: Receiver
    secret: str
    """The value of the Secret that it was started with."""
    waited_for: str
    """What the condition Stalled said before there was a Secret."""

    def send(self, count: int) -> None:
        """Sends the numbers from 0 on, and waits until all of them have arrived."""
        with Sender(self.bootstrap, self.source, 200, count) as numbers:
            numbers.wait_until_sent(count, 60)
        self.out.wait_for_all(range(count), 60)


@pytest.fixture(scope="module")
def started(installation: Installation, kube: Kube) -> Iterator[Started]:
    """The stream of this file, with a Secret that is created after it."""
    source, sink = (f"t-{uuid.uuid4().hex[:8]}" for _ in range(2))
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: 1})
    spec = kafka_to_kafka(installation.kafka.internal, source, sink)
    # A producer has no rack.
    spec["source"]["kafka"]["secretOptions"] = {
        "kafka.client.rack": {"name": "rack", "key": "value"}
    }
    # Kafka's clients would log the values of their options.
    spec["observability"] = {"logLevel": "INFO"}
    manifest = small_stream("numbers", spec)
    manifest["spec"]["executor"]["cores"] = CORES_PER_EXECUTOR
    for role in ("driver", "executor"):
        manifest["spec"][role]["podTemplate"] = _with_mount(role)
    stream, secret = Stream(kube, "numbers"), f"rack-{uuid.uuid4().hex}"
    kube.apply(manifest)
    stream.wait_for(
        "the missing Secret in the status",
        lambda: stream.condition("Stalled").get("reason") == "SecretMissing",
        120,
    )
    waited_for = stream.condition("Stalled")["message"]
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "rack"},
            "stringData": {"value": secret},
        }
    )
    stream.wait_ready()
    with Receiver(external, sink) as out:
        yield Started(stream, manifest, external, source, out, secret, waited_for)
    kube.delete(KIND, stream.name)


def _with_mount(container: str) -> Object:
    mount = {"name": "mounted", "mountPath": "/mounted"}
    return {
        "spec": {
            "containers": [{"name": container, "volumeMounts": [mount]}],
            "volumes": [{"name": "mounted", "emptyDir": {}}],
        }
    }


def test_a_missing_secret_is_named_and_waited_for(started: Started) -> None:
    assert "rack" in started.waited_for
    assert started.stream.condition("Stalled")["status"] == "False"


def test_cores_cover_the_partitions(started: Started) -> None:
    """Three partitions need two executors of two cores each; the stream is Ready with them."""
    executors = started.stream.executors()
    assert len(executors) == -(-PARTITIONS // CORES_PER_EXECUTOR)
    status = started.stream.status()
    assert status["partitions"] == PARTITIONS
    cores = len(executors) * CORES_PER_EXECUTOR
    assert cores >= PARTITIONS
    assert status["cores"] == {"registered": cores, "desired": cores}


def test_a_secret_reaches_the_pods_and_nothing_else(kube: Kube, started: Started) -> None:
    """Its value is in no object and in no log. A pod template reaches the same pods."""
    started.send(RECORDS)
    stream = started.stream
    pods = [stream.driver_pod, *(pod["metadata"]["name"] for pod in stream.executors())]
    outputs: list[Any] = [
        kube.run("get", f"{KIND},configmaps,pods,events,statefulsets", "-o", "json"),
        *(kube.run("logs", pod) for pod in pods),
    ]
    assert '"level":"INFO"' in kube.run("logs", pods[-1])
    assert started.secret not in json.dumps(outputs)
    for pod in pods:
        assert kube.run("exec", pod, "--", "ls", "/mounted") == ""


def test_a_retained_checkpoint_outlives_its_stream(kube: Kube, started: Started) -> None:
    """After its deletion only the volume is left; created again, the stream continues."""
    stream, arrivals = started.stream, started.out.arrivals
    started.send(RECORDS)
    epoch = stream.epoch()
    stream.wait_for("a commit after the last record", lambda: stream.epoch() > epoch + 1, 60)

    kube.delete(KIND, stream.name)
    stream.wait_for("no object left", lambda: not stream.objects_left(), 120)
    assert kube.get("pvc", f"{stream.name}-checkpoint") is not None

    before = arrivals.duplicates
    kube.apply(started.manifest)
    stream.wait_ready()
    started.send(RECORDS + 100)  # the numbers of before, and new ones
    # A start from the beginning would bring those of before more often.
    assert arrivals.duplicates - before == RECORDS
