"""The value of a Secret reaches the pods and nothing else, and a pod template reaches them too."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from e2e.cluster_stream import KIND, Stream, small_stream
from e2e.install import Installation
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube, Object
from testkit.streams.streams import kafka_to_kafka

pytestmark = pytest.mark.timeout(600)


def test_a_secret_reaches_the_pods_and_nothing_else(
    kube: Kube, installation: Installation, topic: str
) -> None:
    """The status names a missing Secret, and the stream waits for it."""
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, {source: 2, sink: 1})
    value = f"rack-{uuid.uuid4().hex}"
    spec = kafka_to_kafka(installation.kafka.internal, source, sink)
    # A producer has no rack.
    spec["source"]["kafka"]["secretOptions"] = {
        "kafka.client.rack": {"name": "rack", "key": "value"}
    }
    # Kafka's clients would log the values of their options.
    spec["observability"] = {"logLevel": "INFO"}
    document = small_stream("with-secret", spec)
    for role in ("driver", "executor"):
        document["spec"].setdefault(role, {})["podTemplate"] = _with_mount(role)
    stream = Stream(kube, "with-secret")
    kube.apply(document)
    stream.wait_for(
        "the missing Secret in the status",
        lambda: stream.condition("Stalled").get("reason") == "SecretMissing",
        120,
    )
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "rack"},
            "stringData": {"value": value},
        }
    )
    stream.wait_ready()
    with Receiver(external, sink) as out:
        with Sender(external, source, 200, 200) as numbers:
            numbers.wait_until_sent(200, 60)
        out.wait_for_all(range(200), 60)
    pods = [stream.driver_pod, *(pod["metadata"]["name"] for pod in stream.executors())]
    outputs: list[Any] = [
        kube.run("get", f"{KIND},configmaps,pods,events,statefulsets", "-o", "json"),
        *(kube.run("logs", pod) for pod in pods),
    ]
    assert '"level":"INFO"' in kube.run("logs", pods[-1])
    assert value not in json.dumps(outputs)
    for pod in pods:
        assert kube.run("exec", pod, "--", "ls", "/mounted") == ""
    kube.delete(KIND, stream.name)


def _with_mount(container: str) -> Object:
    mount = {"name": "mounted", "mountPath": "/mounted"}
    return {
        "spec": {
            "containers": [{"name": container, "volumeMounts": [mount]}],
            "volumes": [{"name": "mounted", "emptyDir": {}}],
        }
    }
