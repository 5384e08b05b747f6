"""Installs Penstock and Kafka on the test cluster."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from testkit.cluster.access import Cluster
from testkit.cluster.kafka import KafkaEndpoints, ensure_kafka
from testkit.cluster.load_images import ensure_images
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT

CHART = CHECKOUT / "charts" / "penstock"
NAMESPACE = "penstock"
RELEASE = "penstock"
OPERATOR = "penstock-operator"
CLUSTER_ROLE = f"{OPERATOR}.{NAMESPACE}"

# What each pod of a stream gets by the chart's streamDefaults.
DEFAULT_ANNOTATION = {"example.com/owner": "platform"}


@dataclass(frozen=True)
class Installation:
    """The cluster, the addresses of its broker, and the images of this checkout."""

    cluster: Cluster
    kafka: KafkaEndpoints
    images: dict[str, str]
    """The references of the images operator and spark."""

    def kube(self, namespace: str) -> Kube:
        return self.cluster.kube(namespace)

    @contextlib.contextmanager
    def streams_namespace(self, prefix: str) -> Iterator[Kube]:
        """A namespace for streams, under the restricted Pod Security Standard."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        kube = self.kube(name)
        kube.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels},
            }
        )
        try:
            yield kube
        finally:
            kube.run("delete", "namespace", name, "--wait=false")


def install(cluster: Cluster) -> Installation:
    """Loads this checkout's images, starts Kafka and installs the chart."""
    refs = ensure_images(["operator", "spark"], cluster)
    kafka = ensure_kafka(cluster)
    upgrade(cluster, refs["operator"], refs["spark"])
    return Installation(cluster, kafka, refs)


def upgrade(cluster: Cluster, operator: str, spark: str) -> None:
    """Installs this checkout's chart with these images, which the node has, or upgrades to it."""
    repository, _, tag = operator.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "sparkImage": spark,
        "streamDefaults": {
            pod: {"podTemplate": {"metadata": {"annotations": DEFAULT_ANNOTATION}}}
            for pod in ("driver", "executor")
        },
    }
    words = ["upgrade", "--install", RELEASE, str(CHART), "--create-namespace"]
    cluster.run_helm(
        NAMESPACE, *words, "--values=-", "--wait", "--timeout=180s", stdin=json.dumps(values)
    )
