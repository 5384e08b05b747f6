"""Nothing may leave the machine from a test cluster: how that is set up and looked at."""

from testkit.cluster.access import Cluster

# What our own node image does when it starts (node/kind/entrypoint), for published images: there
# it can only be done once the cluster is up.
_SHUT = """
set -eu
self=$(ip -4 -o addr show dev eth0 scope global | awk '{sub("/.*","",$4); print $4; exit}')
ip link show sink0 >/dev/null 2>&1 || ip link add sink0 type bridge
ip link set sink0 up
ip addr replace "$self/32" dev sink0
ip route replace default dev sink0
ip -6 route del default 2>/dev/null || true
ip -6 route replace default dev sink0 2>/dev/null || true
"""


def shut(cluster: Cluster) -> None:
    """Let the default route of every node end in a bridge with nothing on it."""
    for node in cluster.nodes:
        cluster.on_node(node, "sh", "-c", _SHUT)


def default_routes(cluster: Cluster, node: str) -> list[str]:
    """The default routes of a node, IPv4 and IPv6, as ``ip route`` words them."""
    lines = []
    for family in ("-4", "-6"):
        lines += cluster.on_node(node, "ip", family, "route", "show", "default").splitlines()
    return [line.strip() for line in lines if line.strip()]
