"""The only module that uses kopf. It watches streams and their children, and queues their keys.

It handles raw events only, because kopf then keeps no state on the resources: no finalizer, so
users can delete a stream while no operator runs; no annotation, so a GitOps tool sees no drift;
no progress record, so the operator patches nothing but the status. A daemon for each stream would
need a finalizer, and a daemon that failed permanently would only return with the operator's
restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from penstock.api import group_version
from penstock.cluster import objects
from penstock.cluster.objects import Key
from penstock.contract import naming


async def watch(
    enqueue: Callable[[Key], None],
    *,
    configuration: Configuration,
    namespaces: Collection[str],
    ready: asyncio.Event | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Enqueues the stream of each event on a stream or a child, until `stop` is set."""
    await kopf.operator(
        registry=_registry(enqueue, configuration),
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        ready_flag=ready,
        stop_flag=stop,
    )


def _registry(enqueue: Callable[[Key], None], configuration: Configuration) -> Any:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await _connection(configuration)

    @kopf.on.event(
        objects.STREAM.group, objects.STREAM.version, objects.STREAM.plural, registry=registry
    )
    async def stream_changed(namespace: str | None, name: str, **_: Any) -> None:
        enqueue(Key(namespace or "", name))

    async def child_changed(namespace: str | None, labels: Any, **_: Any) -> None:
        enqueue(Key(namespace or "", labels[naming.LABEL_STREAM]))

    for kind in objects.CHILDREN:
        kopf.on.event(
            kind.group,
            kind.version,
            kind.plural,
            labels={naming.LABEL_STREAM: kopf.PRESENT},
            registry=registry,
        )(child_changed)
    return registry


async def _connection(configuration: Configuration) -> kopf.ConnectionInfo:
    """The client's own credentials. They are read each time, because tokens expire."""
    header = await configuration.get_api_key_with_prefix("BearerToken")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        # The client spells the scheme "bearer" in a pod, and "Bearer" from a kubeconfig.
        token=header.rpartition(" ")[2] if header else None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # the operator creates its own events
    settings.scanning.disabled = True  # so kopf needs no right to watch CustomResourceDefinitions
    settings.persistence.finalizer = f"{group_version.GROUP}/unused"
    for kind in objects.CHILDREN:
        # Without this the API server would send the events of all pods in the cluster.
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = (
            naming.LABEL_STREAM
        )
    return settings
