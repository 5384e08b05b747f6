"""An object store in the test cluster."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from testkit.cluster.access import Cluster
from testkit.cluster.load_images import ensure_program_image
from testkit.object_store.store import ObjectStore
from testkit.paths import CHECKOUT
from testkit.wait import wait_for

_MANIFESTS = CHECKOUT / "testkit" / "object_store" / "manifests.yaml"
_NAME = "object-store"


@dataclass(frozen=True)
class ClusterObjectStore:
    """A server with one bucket."""

    store: ObjectStore
    """It and its objects, from this machine; the traffic stays on the nodes' own network."""
    endpoint: str
    """For pods."""
    bucket: str
    secret: str = _NAME
    """The Secret with its keys, in its namespace."""
    access_key_entry: str = "accessKey"
    secret_key_entry: str = "secretKey"


@contextlib.contextmanager
def running_object_store(
    cluster: Cluster, namespace: str, bucket: str = "checkpoints"
) -> Iterator[ClusterObjectStore]:
    """A ready server in this namespace, removed with its objects at the end of the block."""
    image = ensure_program_image("versitygw", cluster)
    kube = cluster.kube(namespace)
    access_key, secret_key = secrets.token_hex(10), secrets.token_hex(20)
    try:
        kube.apply(_secret(access_key, secret_key))
        manifests = _MANIFESTS.read_text().replace("image: IMAGE", f"image: {image}")
        kube.run("apply", "-f", "-", stdin=manifests)
        kube.run("rollout", "status", f"deployment/{_NAME}", "--timeout=120s", timeout=130)
        node_port = kube.run("get", "service", _NAME, "-ojsonpath={.spec.ports[0].nodePort}")
        store = ObjectStore(f"http://{cluster.address}:{node_port}", access_key, secret_key)
        wait_for("the object store answers", store.answers)
        store.make_bucket(bucket)
        yield ClusterObjectStore(store, f"http://{_NAME}.{namespace}.svc:7070", bucket)
    finally:
        kube.run("delete", "deployment,service,secret", f"--selector=app={_NAME}")


def _secret(access_key: str, secret_key: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _NAME, "labels": {"app": _NAME}},
        "stringData": {
            ClusterObjectStore.access_key_entry: access_key,
            ClusterObjectStore.secret_key_entry: secret_key,
        },
    }
