"""Which keys of which Secrets a stream names, and the volumes that bring them into its pods.

The operator reads no Secret, and no value of one passes through a ConfigMap, a log or a status: the
kubelet mounts them, and Kafka's own clients read the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.base import KeyRef
from penstock.api.v1alpha1.kafka import KafkaClient
from penstock.contract import naming

# The keys of a Secret of the type kubernetes.io/tls.
TLS_CERTIFICATE = "tls.crt"
TLS_KEY = "tls.key"


def secret_keys(spec: StreamSpec) -> dict[str, tuple[str, ...]]:
    """The keys that the spec uses, by Secret."""
    found: dict[str, set[str]] = {}
    for client in (spec.source.kafka, spec.sink.kafka):
        for ref in _of_client(client) if client is not None else ():
            found.setdefault(ref.name, set()).add(ref.key)
    return {name: tuple(sorted(keys)) for name, keys in sorted(found.items())}


def secret_volumes(spec: StreamSpec) -> list[dict[str, Any]]:
    """A volume for each Secret, with the keys that are used and no others.

    Optional, so that a Secret that is missing is told by the driver, in the stream's status, and
    not only by the kubelet in an event of the pod; the kubelet fills the folder in when it comes.
    """
    return [
        {
            "name": _volume_name(name),
            "secret": {
                "secretName": name,
                "optional": True,
                "items": [{"key": key, "path": key} for key in keys],
            },
        }
        for name, keys in secret_keys(spec).items()
    ]


def secret_mounts(spec: StreamSpec) -> list[dict[str, Any]]:
    """Where each of these volumes is mounted, in driver and executors alike."""
    return [
        {
            "name": _volume_name(name),
            "mountPath": f"{naming.SECRETS_DIR}/{name}",
            "readOnly": True,
        }
        for name in secret_keys(spec)
    ]


def _of_client(client: KafkaClient) -> Iterator[KeyRef]:
    if client.tls is not None:
        if client.tls.ca_secret is not None:
            yield client.tls.ca_secret
        if client.tls.client_secret is not None:
            for key in (TLS_CERTIFICATE, TLS_KEY):
                yield KeyRef(name=client.tls.client_secret.name, key=key)
    if client.sasl is not None:
        yield client.sasl.password_secret
    yield from client.secret_options.values()


def _volume_name(secret: str) -> str:
    """A Secret's name may hold dots and 253 characters, a volume's neither."""
    return f"secret-{hashlib.sha256(secret.encode()).hexdigest()[:10]}"
