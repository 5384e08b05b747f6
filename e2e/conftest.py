"""The kind cluster with Penstock and Kafka: installed once for all tests.

It stays for the next run. In CI it goes after its last test, because an idle cluster takes a fifth
of a core from the tests beside it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from testkit.cluster.access import Cluster
from testkit.cluster.install import Installation, install
from testkit.cluster.kind_cluster import ensure_cluster, remove_cluster
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.missing_parts import in_ci


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("cluster")


@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster whose first node runs all pods, with a second one if a chosen test loses nodes."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    loses_nodes = any("spare_node" in item.fixturenames for item in items)
    yield ensure_cluster(nodes=2 if loses_nodes else 1)
    if in_ci() and "PYTEST_XDIST_WORKER" in os.environ:
        remove_cluster()


@pytest.fixture(scope="package")
def installation(cluster: Cluster) -> Installation:
    """The cluster with the chart of this checkout and a Kafka broker."""
    return install(cluster)


@pytest.fixture(scope="module")
def kube(installation: Installation) -> Iterator[Kube]:
    """A namespace for the module."""
    with installation.streams_namespace("e2e") as kube:
        yield kube


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"
