"""No traffic leaves the machine, neither from a node nor from a pod.

The tests contact no real target. They read routes and resolvers, and try one connection from inside
the cluster to an address that is reserved for documentation (RFC 5737).
"""

import pytest

from testkit.cluster.access import Cluster
from testkit.cluster.isolation import default_routes
from testkit.cluster.kind_cluster import ensure_cluster
from testkit.cluster.load_images import ensure_images

_NOWHERE = "198.51.100.1"
_PROBE = f"""
import socket
print(open("/etc/resolv.conf").read())
try:
    socket.create_connection(("{_NOWHERE}", 443), timeout=3)
except OSError:
    print("connect: failed")
try:
    socket.gethostbyname("kubernetes.default.svc.cluster.local")
    print("cluster name: found")
    socket.gethostbyname("nowhere.example")
except OSError:
    print("other name: not found")
"""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return ensure_cluster()


def test_a_nodes_default_route_ends_in_an_empty_bridge(cluster: Cluster) -> None:
    for node in cluster.nodes:
        routes = default_routes(cluster, node)
        assert routes, "without a default route no service could be reached"
        assert all(" dev sink0" in route for route in routes), routes
        on_bridge = cluster.on_node(node, "ip", "-o", "link", "show", "master", "sink0")
        assert on_bridge.strip() == ""


def test_a_node_uses_only_a_resolver_that_does_not_exist(cluster: Cluster) -> None:
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
    kube = cluster.kube("default")
    kube.delete("pod", "isolation-probe")
    try:
        kube.run(
            "run", "isolation-probe", f"--image={image}", "--image-pull-policy=Never",
            "--restart=Never", "--command", "--", "python3", "-c", _PROBE,
        )  # fmt: skip
        succeeded = "--for=jsonpath={.status.phase}=Succeeded"
        kube.run("wait", succeeded, "pod/isolation-probe", "--timeout=100s")
        output = kube.run("logs", "isolation-probe").splitlines()
    finally:
        kube.delete("pod", "isolation-probe", "--now")
    assert "connect: failed" in output
    assert "cluster name: found" in output
    assert "other name: not found" in output
