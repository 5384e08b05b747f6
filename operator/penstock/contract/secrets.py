"""The Secrets' keys that a stream uses, and the volumes that mount them in its pods.

The operator reads no Secret, and no value of a Secret is in a ConfigMap, a log or a status: the
kubelet mounts Secrets as files, and what needs a value reads its file: the clients of Kafka, of an
object store and of a database, and the driver for Spark and for data sources of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.base import KeyRef
from penstock.api.v1alpha1.kafka_connection import KafkaConnection
from penstock.api.v1alpha1.object_store import ObjectStore
from penstock.contract import naming


def secret_keys(spec: StreamSpec) -> dict[str, tuple[str, ...]]:
    """The keys that the stream uses, by Secret."""
    store = spec.checkpoint.object_store
    of_store = _refs_of_store(store) if store else ()
    return _by_secret([*_refs_of_query(spec), *of_store])


def query_secret_keys(spec: StreamSpec) -> dict[str, tuple[str, ...]]:
    """Those that it uses without its checkpoint, by Secret."""
    return _by_secret(_refs_of_query(spec))


def secret_volumes(spec: StreamSpec) -> list[dict[str, Any]]:
    """A volume for each Secret, with only the keys that are used.

    The volumes are optional. So the driver starts and reports a missing Secret in the stream's
    status, where the kubelet alone would only write an event of the pod. The kubelet adds the
    files once the Secret exists.
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
    """Where these volumes are mounted, in driver and executors alike."""
    return [
        {
            "name": _volume_name(name),
            "mountPath": f"{naming.SECRETS_DIR}/{name}",
            "readOnly": True,
        }
        for name in secret_keys(spec)
    ]


def _by_secret(refs: Iterable[KeyRef]) -> dict[str, tuple[str, ...]]:
    keys_by_secret: dict[str, set[str]] = {}
    for ref in refs:
        keys_by_secret.setdefault(ref.name, set()).add(ref.key)
    return {name: tuple(sorted(keys)) for name, keys in sorted(keys_by_secret.items())}


def _refs_of_store(store: ObjectStore) -> Iterator[KeyRef]:
    yield from filter(None, (store.access_key_id_secret, store.secret_access_key_secret))


def _refs_of_query(spec: StreamSpec) -> Iterator[KeyRef]:
    yield from _refs_of_clients(spec)
    yield from _refs_of_database(spec)
    yield from spec.secret_value_refs


def _refs_of_database(spec: StreamSpec) -> Iterator[KeyRef]:
    jdbc = spec.sink.jdbc
    if jdbc is not None and jdbc.credentials_secret is not None:
        login = jdbc.credentials_secret
        for key in (login.username_key, login.password_key):
            yield KeyRef(name=login.name, key=key)
    if jdbc is not None and jdbc.tls is not None and jdbc.tls.ca_secret is not None:
        yield jdbc.tls.ca_secret


def _refs_of_clients(spec: StreamSpec) -> Iterator[KeyRef]:
    for client in (spec.source.kafka, spec.sink.kafka):
        if client is not None:
            yield from _refs_of(client)


def _refs_of(client: KafkaConnection) -> Iterator[KeyRef]:
    if client.tls is not None:
        if client.tls.ca_secret is not None:
            yield client.tls.ca_secret
        if client.tls.client_secret is not None:
            own = client.tls.client_secret
            for key in (own.cert_key, own.key_key):
                yield KeyRef(name=own.name, key=key)
    if client.sasl is not None:
        for ref in (client.sasl.password_secret, client.sasl.jaas_config_secret):
            if ref is not None:
                yield ref
    yield from client.secret_options.values()


def _volume_name(secret: str) -> str:
    """A Secret's name may have dots and 253 characters, a volume's name at most 63 and no dots."""
    return f"secret-{hashlib.sha256(secret.encode()).hexdigest()[:10]}"
