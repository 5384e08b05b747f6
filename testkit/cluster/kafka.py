"""The Kafka broker in the test cluster."""

from dataclasses import dataclass

from testkit.cluster.access import Cluster
from testkit.cluster.load_images import ensure_images
from testkit.paths import CHECKOUT

_MANIFESTS = CHECKOUT / "testkit" / "kafka" / "image" / "manifests.yaml"
_NODE_PORT = 30094


@dataclass(frozen=True)
class KafkaEndpoints:
    """What clients call bootstrap.servers."""

    internal: str
    """For pods."""
    external: str
    """For processes on this machine; the traffic stays on the nodes' own network."""


def ensure_kafka(cluster: Cluster) -> KafkaEndpoints:
    """A broker in the namespace ``kafka``, ready for clients. Topics are not made by themselves."""
    image = ensure_images(["kafka"], cluster)["kafka"]
    address = _node_address(cluster)
    manifests = _MANIFESTS.read_text().replace("image: IMAGE", f"image: {image}")
    cluster.apply(manifests.replace("NODE_ADDRESS", address))
    rollout = ["-n", "kafka", "rollout", "status", "statefulset/kafka", "--timeout=240s"]
    cluster.kube(*rollout, timeout=250)
    return KafkaEndpoints("kafka.kafka.svc:9092", f"{address}:{_NODE_PORT}")


def _node_address(cluster: Cluster) -> str:
    """The control plane's address on the nodes' network, which this machine is on as well."""
    return cluster.kube(
        "get",
        "nodes",
        "--selector=node-role.kubernetes.io/control-plane",
        '-ojsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}',
    ).split()[0]
