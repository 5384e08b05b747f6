"""Blocks traffic from the test cluster to the outside, and checks that it is blocked."""

from testkit.cluster.access import Cluster

# Our own node image does the same when it starts (node/kind/entrypoint). With a published image it
# can only be done after the cluster has started.
_BLOCK = """
set -eu
self=$(ip -4 -o addr show dev eth0 scope global | awk '{sub("/.*","",$4); print $4; exit}')
ip link show sink0 >/dev/null 2>&1 || ip link add sink0 type bridge
ip link set sink0 up
ip addr replace "$self/32" dev sink0
ip route replace default dev sink0
ip -6 route del default 2>/dev/null || true
ip -6 route replace default dev sink0 2>/dev/null || true
"""


def block_outside(cluster: Cluster) -> None:
    """Points the default route of every node at a bridge that has no ports."""
    for node in cluster.nodes:
        cluster.on_node(node, "sh", "-c", _BLOCK)


def default_routes(cluster: Cluster, node: str) -> list[str]:
    """The default routes of a node, IPv4 and IPv6, as `ip route` prints them."""
    lines = []
    for family in ("-4", "-6"):
        lines += cluster.on_node(node, "ip", family, "route", "show", "default").splitlines()
    return [line.strip() for line in lines if line.strip()]
