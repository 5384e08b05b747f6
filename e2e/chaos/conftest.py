"""What watches the cluster while faults hit it, and a second node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.chaos.alerting import Alerting, alerting
from testkit.cluster.install import Installation
from testkit.cluster.load_images import load

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@pytest.fixture(scope="module")
def alerts(
    installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Alerting]:
    """Prometheus with the chart's monitors and rules."""
    with alerting(installation.cluster, tmp_path_factory.mktemp("alerting")) as running:
        yield running


@pytest.fixture
def spare_node(installation: Installation) -> Iterator[str]:
    """The cluster's second node, with the Spark image. It is healthy and cordoned afterwards."""
    cluster = installation.cluster
    node, kube = cluster.nodes[1], cluster.kube()
    load(cluster, [installation.images["spark"]], [node])
    yield node
    kube.run("uncordon", cluster.nodes[0])
    kube.run("cordon", node)
    cluster.on_node(node, "systemctl", "start", "kubelet")
    kube.run("wait", "--for=condition=Ready", f"node/{node}", "--timeout=120s", timeout=130)
    kube.run("taint", "nodes", node, "--overwrite", f"{OUT_OF_SERVICE}=over:NoExecute")
    kube.run("taint", "nodes", node, f"{OUT_OF_SERVICE}:NoExecute-")
