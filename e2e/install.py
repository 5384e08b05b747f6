"""Penstock and Kafka on the test cluster."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from testkit.cluster.access import Cluster
from testkit.cluster.kafka import KafkaEndpoints, ensure_kafka
from testkit.cluster.kind_cluster import ensure
from testkit.cluster.load_images import ensure_images
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT

CHART = CHECKOUT / "charts" / "penstock"
NAMESPACE = "penstock"
RELEASE = "penstock"
OPERATOR = "penstock-operator"


@dataclass(frozen=True)
class Installation:
    """What a test needs to know of the cluster."""

    cluster: Cluster
    kafka: KafkaEndpoints

    def kube(self, namespace: str) -> Kube:
        """kubectl in a namespace."""
        return Kube(self.cluster.kubectl, self.cluster.kubeconfig, namespace)


def install() -> Installation:
    """The cluster up, images of this checkout in it, the chart installed, Kafka running."""
    cluster = ensure()
    refs = ensure_images(["operator", "spark"], cluster)
    kafka = ensure_kafka(cluster)
    _helm_upgrade(cluster, refs["operator"], refs["spark"])
    return Installation(cluster, kafka)


def _helm_upgrade(cluster: Cluster, operator: str, spark: str) -> None:
    repository, _, tag = operator.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "sparkImage": spark,
    }
    subprocess.run(
        [
            str(cluster.helm), "upgrade", "--install", RELEASE, str(CHART),
            f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}", "--create-namespace",
            "--values=-", "--wait", "--timeout=180s",
        ],
        input=json.dumps(values), text=True, check=True, stdout=subprocess.DEVNULL, timeout=240,
    )  # fmt: skip
