"""The Kafka broker in the test cluster."""

from dataclasses import dataclass

from testkit.cluster.access import Cluster
from testkit.cluster.load_images import ensure_images
from testkit.paths import CHECKOUT

_MANIFESTS = CHECKOUT / "testkit" / "kafka" / "image" / "manifests.yaml"
_NODE_PORT = 30094


@dataclass(frozen=True)
class KafkaEndpoints:
    """The values of bootstrap.servers."""

    internal: str
    """For pods."""
    external: str
    """For processes on this machine; the traffic stays on the nodes' own network."""


def ensure_kafka(cluster: Cluster) -> KafkaEndpoints:
    """A ready broker in the namespace `kafka`. It creates no topic automatically."""
    image = ensure_images(["kafka"], cluster)["kafka"]
    manifests = _MANIFESTS.read_text().replace("image: IMAGE", f"image: {image}")
    kube = cluster.kube("kafka")
    kube.run(
        "apply", "--server-side", "--force-conflicts", "-f", "-",
        stdin=manifests.replace("NODE_ADDRESS", cluster.address),
    )  # fmt: skip
    kube.run("rollout", "status", "statefulset/kafka", "--timeout=240s", timeout=250)
    return KafkaEndpoints("kafka.kafka.svc:9092", f"{cluster.address}:{_NODE_PORT}")
