"""No traffic leaves the machine, neither from a node nor from a pod.

The tests contact no real target: they try addresses that are reserved for documentation (RFC 5737)
and would time out on an open network too. What they check is where the packets went: a node that
sends a packet out of an interface asks there for the address's neighbor, and keeps that record.
"""

import uuid

from testkit.cluster.access import Cluster
from testkit.cluster.isolation import default_routes
from testkit.cluster.load_images import ensure_images

_FROM_A_NODE = "198.51.100.1"
_FROM_A_POD = "198.51.100.2"
_RESOLVER = "198.51.100.53"
_PROBE = """
import socket
try:
    socket.create_connection(("{address}", 443), timeout=3)
except OSError:
    print("connect: failed")
socket.gethostbyname("kubernetes.default.svc.cluster.local")
print("cluster name: found")
try:
    socket.gethostbyname("{name}")
except OSError:
    print("other name: not found")
"""


def forget(cluster: Cluster, address: str) -> None:
    for node in cluster.nodes:
        cluster.on_node(node, "ip", "neigh", "flush", "to", address)


def interfaces_asked(cluster: Cluster, address: str) -> set[str]:
    """The interfaces on which a node has looked for this address since `forget`."""
    lines = [
        line.split()
        for node in cluster.nodes
        for line in cluster.on_node(node, "ip", "neigh", "show", "to", address).splitlines()
    ]
    return {words[words.index("dev") + 1] for words in lines}


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
        assert servers == [_RESOLVER]


def test_what_a_node_sends_out_ends_in_the_bridge(cluster: Cluster) -> None:
    forget(cluster, _FROM_A_NODE)
    for node in cluster.nodes:
        script = f"timeout 3 bash -c '</dev/tcp/{_FROM_A_NODE}/443' && echo out || echo in"
        assert cluster.on_node(node, "bash", "-c", script).strip() == "in"
    assert interfaces_asked(cluster, _FROM_A_NODE) == {"sink0"}


def test_what_a_pod_sends_out_ends_in_the_bridge_and_cluster_names_resolve(
    cluster: Cluster,
) -> None:
    """Both a connection, and the cluster's DNS, which would ask the resolver for other names."""
    image = ensure_images(["operator"], cluster)["operator"]
    # A new name, since the cluster's DNS remembers that it did not find one.
    probe = _PROBE.format(address=_FROM_A_POD, name=f"{uuid.uuid4().hex}.example")
    for address in (_FROM_A_POD, _RESOLVER):
        forget(cluster, address)
    kube = cluster.kube("default")
    kube.delete("pod", "isolation-probe")
    try:
        kube.run(
            "run", "isolation-probe", f"--image={image}", "--image-pull-policy=Never",
            "--restart=Never", "--command", "--", "python3", "-c", probe,
        )  # fmt: skip
        succeeded = "--for=jsonpath={.status.phase}=Succeeded"
        kube.run("wait", succeeded, "pod/isolation-probe", "--timeout=100s")
        output = kube.run("logs", "isolation-probe").splitlines()
    finally:
        kube.delete("pod", "isolation-probe", "--now")
    assert output == ["connect: failed", "cluster name: found", "other name: not found"]
    assert interfaces_asked(cluster, _FROM_A_POD) == {"sink0"}
    assert interfaces_asked(cluster, _RESOLVER) == {"sink0"}
