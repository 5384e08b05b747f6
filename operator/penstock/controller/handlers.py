"""The only module that knows kopf: its watches, turned into keys to look at.

Only raw events are handled. Kopf then keeps no state on the resources: no finalizer, so that a
stream can be deleted while no operator runs; no annotation, so that a GitOps tool sees no drift;
no progress record, so that nothing is patched but the status. A daemon for each stream would hold
a finalizer, and one that failed for good would stay dead until the operator's restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from penstock.api import group_version
from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.objects import Key


async def watch(
    changed: Callable[[Key], None],
    *,
    configuration: Configuration,
    namespaces: Collection[str],
    health_port: int | None,
    ready: asyncio.Event | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Watches streams and their children, and names the stream of each event. Until stopped."""
    await kopf.operator(
        registry=_registry(changed, configuration),
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        liveness_endpoint=f"http://0.0.0.0:{health_port}/healthz" if health_port else None,
        ready_flag=ready,
        stop_flag=stop,
    )


def _registry(changed: Callable[[Key], None], configuration: Configuration) -> Any:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await _connection(configuration)

    @kopf.on.event(
        objects.STREAM.group, objects.STREAM.version, objects.STREAM.plural, registry=registry
    )
    async def stream_changed(namespace: str | None, name: str, **_: Any) -> None:
        changed(Key(namespace or "", name))

    async def child_changed(namespace: str | None, labels: Any, **_: Any) -> None:
        changed(Key(namespace or "", labels[naming.LABEL_STREAM]))

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
    """The client's own credentials, read again each time: a service account's token expires."""
    header = await configuration.get_api_key_with_prefix("BearerToken")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        # The client writes the scheme as "bearer" in a pod, and as "Bearer" from a kubeconfig.
        token=header.rpartition(" ")[2] if header else None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # events are ours to word
    settings.scanning.disabled = True  # no right to watch CustomResourceDefinitions is needed
    settings.persistence.finalizer = f"{group_version.GROUP}/unused"
    for kind in objects.CHILDREN:
        # The server sends only what is ours; else all pods of the cluster would come.
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = (
            naming.LABEL_STREAM
        )
    return settings
