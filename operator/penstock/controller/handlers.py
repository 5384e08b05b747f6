"""The only module that uses kopf. It watches streams and their children, and queues their keys.

It handles raw events only, because kopf then keeps no state on the resources: no finalizer, so
users can delete a stream while no operator runs; no annotation, so a GitOps tool sees no drift;
no progress record, so the operator patches nothing but the status. A daemon for each stream would
need a finalizer, and a daemon that failed permanently would only return with the operator's
restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from itertools import count, repeat
from typing import Any, Protocol

import kopf
from kubernetes.aio.client import Configuration

from penstock.api import group_version
from penstock.cluster import kinds
from penstock.cluster.kinds import Key
from penstock.cluster.stream import Stream
from penstock.contract import naming

# The API server may refuse a valid token while it starts, and one that is not valid for ever.
_LOGIN_AGAIN_SECONDS = 1.0
# Objects in one answer. kopf's default is all of them: at 15,000 pods the operator then took 1.2 GB
# and its loop stood still for 6 s, with chunks 0.35 GB and 0.8 s (measured).
_CHUNK_SIZE = 500


class Changes(Protocol):
    def stream_changed(self, key: Key, version: str) -> None:
        """A stream was found, created or changed; `version` is its resourceVersion."""

    def stream_deleted(self, key: Key) -> None:
        """A stream is gone."""

    def child_changed(self, key: Key) -> None:
        """An object of this stream was found, created, changed or deleted."""


class _Backoffs:
    """Seconds between kopf's attempts at a request, which never run out.

    When they do, kopf ends the operator, and with it the work for all namespaces: also because one
    of the watched namespaces was deleted, and with it the right to watch it.
    """

    def __iter__(self) -> Iterator[float]:
        yield from (1, 1, 2, 3, 5, 8, 13)
        yield from repeat(20)


async def watch(
    changes: Changes,
    *,
    configuration: Configuration,
    class_name: str,
    namespaces: Collection[str],
    ready: asyncio.Event | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Tells `changes` of each event on a stream or a child, until `stop` is set.

    Only those of this class; a child has the class of its stream as a label.
    """
    await kopf.operator(
        registry=_registry(changes, configuration, class_name),
        settings=_settings(class_name),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        ready_flag=ready,
        stop_flag=stop,
    )


def _registry(changes: Changes, configuration: Configuration, class_name: str) -> Any:
    registry = kopf.OperatorRegistry()
    answers = count()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        number = next(answers)
        if number > 0:
            await asyncio.sleep(_LOGIN_AGAIN_SECONDS)
        return await _connection(configuration, number)

    @kopf.on.event(kinds.STREAM.group, kinds.STREAM.version, kinds.STREAM.plural, registry=registry)
    async def stream_event(
        type: str | None, namespace: str | None, name: str, body: Any, **_: Any
    ) -> None:
        stream = Stream(body)
        if stream.class_name != class_name:
            return
        key = Key(namespace or "", name)
        if type == "DELETED":
            changes.stream_deleted(key)
        else:
            changes.stream_changed(key, stream.version)

    async def child_event(namespace: str | None, labels: Any, **_: Any) -> None:
        changes.child_changed(Key(namespace or "", labels[naming.LABEL_STREAM]))

    for kind in kinds.CHILDREN:
        kopf.on.event(
            kind.group,
            kind.version,
            kind.plural,
            labels={naming.LABEL_STREAM: kopf.PRESENT},
            registry=registry,
        )(child_event)
    return registry


async def _connection(configuration: Configuration, number: int) -> kopf.ConnectionInfo:
    """The client's own credentials. They are read each time, because tokens expire.

    `number` counts the answers. After a 401, kopf takes credentials that equal the refused ones for
    none, and ends the operator. So an answer with the same token differs by its priority.
    """
    header = await configuration.get_api_key_with_prefix("BearerToken")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        # The client spells the scheme "bearer" in a pod, and "Bearer" from a kubeconfig.
        token=header.rpartition(" ")[2] if header else None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        priority=number,
    )


def _settings(class_name: str) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # the operator creates its own events
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.chunk_size = _CHUNK_SIZE
    settings.scanning.disabled = True  # so kopf needs no right to watch CustomResourceDefinitions
    settings.persistence.finalizer = f"{group_version.GROUP}/unused"
    of_class = f"{naming.LABEL_CLASS}={class_name}" if class_name else f"!{naming.LABEL_CLASS}"
    for kind in kinds.CHILDREN:
        # Without this the API server would send the events of all pods in the cluster.
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = (
            f"{naming.LABEL_STREAM},{of_class}"
        )
    return settings
