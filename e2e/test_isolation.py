"""Nothing can leave the machine: neither from a node nor from a pod.

No real target is ever asked: only routes and resolvers are looked at, and the one connection that
is tried goes to an address set aside for documentation, from inside the cluster's own network.
"""

import pytest

from testkit.cluster.access import Cluster
from testkit.cluster.isolation import default_routes
from testkit.cluster.kind_cluster import ensure
from testkit.cluster.load_images import ensure_images

pytestmark = pytest.mark.cluster

_NOWHERE = "198.51.100.1"
_PROBE = f"""
import socket
print(open("/etc/resolv.conf").read())
try:
    socket.create_connection(("{_NOWHERE}", 443), timeout=3)
except OSError:
    print("connect: no way out")
try:
    socket.gethostbyname("kubernetes.default.svc.cluster.local")
    print("cluster name: found")
    socket.gethostbyname("nowhere.example")
except OSError:
    print("other name: not found")
"""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return ensure()


def test_a_nodes_default_route_ends_in_an_empty_bridge(cluster: Cluster) -> None:
    for node in cluster.nodes:
        routes = default_routes(cluster, node)
        assert routes, "without any default route services could not be reached"
        assert all(" dev sink0" in route for route in routes), routes
        on_bridge = cluster.on_node(node, "ip", "-o", "link", "show", "master", "sink0")
        assert on_bridge.strip() == ""


def test_a_node_asks_no_resolver_that_could_pass_a_name_on(cluster: Cluster) -> None:
    for node in cluster.nodes:
        lines = cluster.on_node(node, "cat", "/etc/resolv.conf").splitlines()
        servers = [line.split()[1] for line in lines if line.startswith("nameserver")]
        assert servers == ["198.51.100.53"]


def test_a_node_cannot_connect_out(cluster: Cluster) -> None:
    for node in cluster.nodes:
        script = f"timeout 3 bash -c '</dev/tcp/{_NOWHERE}/443' && echo out || echo in"
        assert cluster.on_node(node, "bash", "-c", script).strip() == "in"


def test_a_pod_resolves_the_clusters_names_and_cannot_connect_out(cluster: Cluster) -> None:
    image = ensure_images(["operator"], cluster)["operator"]
    name = ["--namespace=default", "pod/isolation-probe"]
    cluster.kube("delete", "--ignore-not-found", *name)
    try:
        cluster.kube(
            "run", "isolation-probe", f"--image={image}", "--image-pull-policy=Never",
            "--namespace=default", "--restart=Never", "--command", "--", "python3", "-c", _PROBE,
        )  # fmt: skip
        done = "--for=jsonpath={.status.phase}=Succeeded"
        cluster.kube("wait", done, *name, "--timeout=100s")
        said = cluster.kube("logs", *name).splitlines()
    finally:
        cluster.kube("delete", "--ignore-not-found", "--now", *name)
    assert "connect: no way out" in said
    assert "cluster name: found" in said
    assert "other name: not found" in said
