"""The only module that uses kopf, which watches the streams: what people do comes through here.

The objects of streams have watches of their own (`kubernetes/watch.py`), whose lists end in a
known state: kopf's handlers never hear what a list no longer has.

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
from penstock.cluster.kinds import Manifest
from penstock.cluster.stream import Stream

# The API server may refuse a valid token while it starts, and one that is not valid for ever.
_LOGIN_AGAIN_SECONDS = 1.0
# Objects in one answer. kopf's default is all of them.
_CHUNK_SIZE = 500


class Changes(Protocol):
    def stream_changed(self, stream: Manifest, *, listed: bool) -> None:
        """A stream was created or changed, or found in a list."""

    def stream_deleted(self, stream: Manifest) -> None:
        """A stream is gone."""


class _Backoffs:
    """Seconds between kopf's attempts at a request, which never run out.

    When they do, kopf ends the operator, and with it the work for all namespaces: also because one
    of the watched namespaces was deleted, and with it the right to watch it.
    """

    def __iter__(self) -> Iterator[float]:
        yield from (1, 1, 2, 3, 5, 8, 13)
        yield from repeat(20)


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf copies each object to compare it with the last one, which no handler here asks for."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        """Nothing is stored."""


async def watch(
    changes: Changes,
    *,
    configuration: Configuration,
    class_name: str,
    namespaces: Collection[str],
    ready: asyncio.Event | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Tells `changes` of each event on a stream of this class, until `stop` is set."""
    await kopf.operator(
        registry=_registry(changes, configuration, class_name),
        settings=_settings(),
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
    async def stream_event(type: str | None, body: Any, **_: Any) -> None:
        stream = dict(body)
        if Stream(stream).class_name != class_name:
            return
        if type == "DELETED":
            changes.stream_deleted(stream)
        else:
            changes.stream_changed(stream, listed=type is None)

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


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # the operator creates its own events
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.chunk_size = _CHUNK_SIZE
    settings.scanning.disabled = True  # so kopf needs no right to watch CustomResourceDefinitions
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.persistence.finalizer = f"{group_version.GROUP}/unused"
    return settings
