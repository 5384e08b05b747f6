"""An object store in the test cluster."""

from __future__ import annotations

import base64
import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testkit.certificates import Authority
from testkit.cluster.access import Cluster
from testkit.cluster.load_images import ensure_program_image
from testkit.object_store.store import ObjectStore
from testkit.paths import CHECKOUT
from testkit.wait import wait_for

_MANIFESTS = CHECKOUT / "testkit" / "object_store" / "manifests.yaml"
_NAME = "object-store"
_BUCKET = "checkpoints"


@dataclass(frozen=True)
class ClusterObjectStore:
    """A server with one bucket."""

    store: ObjectStore
    """It and its objects, from this machine; the traffic stays on the nodes' own network."""
    endpoint: str
    """For pods, with TLS."""
    bucket: str
    secret: str = _NAME
    """The Secret with its keys, in its namespace."""
    access_key_entry: str = "accessKey"
    secret_key_entry: str = "secretKey"
    authorities: str = _NAME
    """The ConfigMap with bundle.jks, for Java to trust the endpoint."""


@contextlib.contextmanager
def running_object_store(cluster: Cluster, namespace: str) -> Iterator[ClusterObjectStore]:
    """A ready server in this namespace, removed with its objects at the end of the block."""
    image = ensure_program_image("versitygw", cluster)
    kube = cluster.kube(namespace)
    access_key, secret_key = secrets.token_hex(10), secrets.token_hex(20)
    host = f"{_NAME}.{namespace}.svc"
    try:
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(Path(folder))
            pair = authority.certify("store", f"DNS:{host}")
            kube.apply(_secret(access_key, secret_key, *pair))
            kube.apply(_authorities(authority))
        manifests = _MANIFESTS.read_text().replace("image: IMAGE", f"image: {image}")
        kube.run("apply", "-f", "-", stdin=manifests)
        kube.run("rollout", "status", f"deployment/{_NAME}", "--timeout=120s", timeout=130)
        node_port = kube.run("get", "service", _NAME, "-ojsonpath={.spec.ports[0].nodePort}")
        store = ObjectStore(f"http://{cluster.address}:{node_port}", access_key, secret_key)
        wait_for("the object store answers", store.answers)
        store.make_bucket(_BUCKET)
        yield ClusterObjectStore(store, f"https://{host}:7443", _BUCKET)
    finally:
        kube.run("delete", "deployment,service,secret,configmap", f"--selector=app={_NAME}")


def _authorities(authority: Authority) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _NAME, "labels": {"app": _NAME}},
        "binaryData": {
            "bundle.jks": base64.b64encode(authority.truststore().read_bytes()).decode()
        },
    }


def _secret(
    access_key: str, secret_key: str, certificate: Path, private_key: Path
) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _NAME, "labels": {"app": _NAME}},
        "stringData": {
            ClusterObjectStore.access_key_entry: access_key,
            ClusterObjectStore.secret_key_entry: secret_key,
            "tls.crt": certificate.read_text(),
            "tls.key": private_key.read_text(),
        },
    }
