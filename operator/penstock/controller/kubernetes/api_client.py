"""The operator's only access to the Kubernetes API. It takes and returns plain dicts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException

from penstock.cluster import rest_api
from penstock.cluster.kinds import STREAM, Kind, Manifest, Ref, kind_of
from penstock.cluster.lenient_fields import at, count, mapping, text
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.controller.kubernetes.bounded_objects import SMALL_BYTES, bounded, stub

_METHODS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
_READS = frozenset({"get", "list"})
# A slower request is retried; the API server itself gives up after 60 s.
_TIMEOUT_SECONDS = 30
# Each has a connection, which takes 0.3 MiB (asyncio's buffer of TLS alone 0.25), and is kept.
_MAX_CONCURRENT_REQUESTS = 64
# Objects in one answer: the first time, and at most. With all 15,000 pods in one, the operator took
# 1.2 GB and its loop stood still for 6 s (measured).
_FIRST_PAGE, _PAGE = 50, 500
# A larger answer is not read on, and asked for again with fewer objects: a tenant's may have a few
# MiB each. To parse so much takes a twentieth of a second and some 30 MiB.
_PAGE_BYTES = 4 * 2**20
# So much of the objects of one list is held whole; of what is beyond, only what it is.
_LIST_BYTES = 8 * 2**20
_LONGEST_LIST = 10_000
# The API server sends a bookmark about every minute, so a watch that is silent for longer is dead.
_SILENCE_SECONDS = 75
# Of a watch's answer: an event. Objects have a few MiB at most, also where JSON escapes all of it.
_LONGEST_LINE = 32 * 2**20


@dataclass(frozen=True)
class ApiCall:
    """One request to the API server, as it ended."""

    verb: str
    """As RBAC has it: get, list, watch, create, patch, delete."""
    resource: str
    """The plural name, with the subresource: pods, continuousstreams/status."""
    code: int
    """The HTTP status of the answer; 0 if there was none."""
    seconds: float
    """With the wait for its turn."""


class _AnswerTooLarge(Exception):
    """An answer has more bytes than were to be read."""


class KubernetesReads(Protocol):
    """Where objects are read: the API server, or what its watches have shown."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Returns an object, or None if there is none."""
        ...

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str],
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """Returns the objects in a namespace that have all of these labels and fields."""
        ...


class KubernetesApi(KubernetesReads, Protocol):
    """The operator's requests to the API server. Tests have one in memory."""

    async def apply(self, manifest: Manifest, *, force: bool) -> Manifest:
        """Applies a manifest, and creates the object if there is none.

        Without `force` it is error 409 if the object exists and others set one of these fields to
        another value. A manifest with a UID is applied only to the object with that UID.
        """
        ...

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """Applies a stream's status; error 409 if the stream has changed since it was read."""
        ...

    async def delete(self, ref: Ref) -> None:
        """Deletes an object by its UID. It is no error if the object is gone."""
        ...

    async def create_event(self, event: Manifest) -> None:
        """Creates an event. It is no error if one of that name exists: it is the same event."""
        ...


async def load_configuration() -> Configuration:
    """Loads the address and credentials from the pod's service account, or else a kubeconfig."""
    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        await config.load_kube_config(client_configuration=configuration)
    return configuration


class KubernetesApiClient:
    """The real API server. Use it as an async context manager, because it keeps connections."""

    def __init__(
        self,
        configuration: Configuration,
        on_call: Callable[[ApiCall], None] = lambda _: None,
        may_write: Callable[[], bool] = lambda: True,
        max_concurrent_requests: int = _MAX_CONCURRENT_REQUESTS,
    ) -> None:
        """The bound is for all requests but the watches."""
        # Each watch keeps a connection, and with many namespaces there are hundreds.
        configuration.connection_pool_maxsize = 0
        self._client = ApiClient(configuration)
        self._slots = asyncio.Semaphore(max_concurrent_requests)
        self._on_call = on_call
        self._may_write = may_write

    async def __aenter__(self) -> KubernetesApiClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        with rest_api.ignoring(404):
            return await self._send("get", kind.plural, kind.path(namespace, name))
        return None

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str],
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        query = {
            "labelSelector": rest_api.selector(labels),
            "fieldSelector": rest_api.selector(fields or {}),
        }
        manifests, read = list[Manifest](), 0
        async for page, _, size in self._pages(kind, namespace, query):
            read += size
            manifests += page if read <= _LIST_BYTES else map(stub, page)
            if len(manifests) >= _LONGEST_LIST:
                break
        return manifests

    async def pages(
        self, kind: Kind, namespace: str, selector: str
    ) -> AsyncIterator[tuple[Sequence[Manifest], str]]:
        """All objects that the selector matches, some at a time, and the version of the list.

        It is error 410 if this takes longer than the API server keeps the version.
        """
        async for page, version, _ in self._pages(kind, namespace, {"labelSelector": selector}):
            yield page, version

    async def _pages(
        self, kind: Kind, namespace: str, query: Mapping[str, str]
    ) -> AsyncIterator[tuple[Sequence[Manifest], str, int]]:
        """As `pages`, with the size of each answer in bytes."""
        more, limit = "", _FIRST_PAGE
        while True:
            asked = {**query, "limit": str(limit), "continue": more}
            max_bytes = _PAGE_BYTES if limit > 1 else None
            try:
                answer, size = await self._send_sized(
                    "list", kind.plural, kind.path(namespace), query=asked, max_bytes=max_bytes
                )
            except _AnswerTooLarge:
                limit = max(1, limit // 8)
                continue
            page = rest_api.items(kind, answer)
            if size > SMALL_BYTES:
                page = [bounded(each, is_stream=kind == STREAM) for each in page]
            yield page, text(at(answer, "metadata", "resourceVersion")), size
            more = text(at(answer, "metadata", "continue"))
            if not more:
                return
            if size < _PAGE_BYTES // 4:
                limit = min(_PAGE, limit * 2)

    async def events(
        self, kind: Kind, namespace: str, selector: str, version: str
    ) -> AsyncIterator[tuple[str, Manifest]]:
        """The changes after a version, until the API server ends the answer.

        Each is ADDED, MODIFIED or DELETED, and the object; or BOOKMARK, and the version alone. It
        is error 410 if the API server no longer knows the version, and 413 if an event is larger
        than any that it sends.
        """
        query = {
            "labelSelector": selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
        }
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=_TIMEOUT_SECONDS, sock_read=_SILENCE_SECONDS
        )
        started, code = time.perf_counter(), 0
        try:
            response = await self._open("GET", kind.path(namespace), query, limits=limits)
            code = int(response.status)
        except ApiError as error:
            code = error.code
            raise
        finally:
            self._on_call(ApiCall("watch", kind.plural, code, time.perf_counter() - started))
        try:
            async for line in _lines(response.response.content):
                event = rest_api.parse(line)
                manifest = mapping(event.get("object"))
                if event.get("type") == "ERROR":
                    raise rest_api.refusal(count(manifest.get("code")), None, json.dumps(manifest))
                if len(line) > SMALL_BYTES:
                    manifest = bounded(dict(manifest), is_stream=kind == STREAM)
                yield text(event.get("type")), dict(manifest)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise rest_api.unreachable(error) from error
        finally:
            response.response.close()

    async def apply(self, manifest: Manifest, *, force: bool) -> Manifest:
        return await self._apply(manifest, force=force)

    async def apply_status(self, manifest: Manifest) -> Manifest:
        return await self._apply(manifest, "status", force=True)

    async def delete(self, ref: Ref) -> None:
        options = {"preconditions": {"uid": ref.uid}, "propagationPolicy": "Background"}
        path = ref.kind.path(ref.namespace, ref.name)
        with rest_api.ignoring(404, 409):  # gone, or another object of that name
            await self._send("delete", ref.kind.plural, path, body=options)

    async def create_event(self, event: Manifest) -> None:
        kind, namespace = kind_of(event), event["metadata"]["namespace"]
        with rest_api.ignoring(409):
            await self._send("create", kind.plural, kind.path(namespace), body=event)

    async def serves_streams(self) -> bool:
        with rest_api.ignoring(404):
            return rest_api.serves(STREAM, await self._send("get", "apiresources", STREAM.root))
        return False

    async def _apply(self, manifest: Manifest, *subresource: str, force: bool) -> Manifest:
        meta, kind = manifest["metadata"], kind_of(manifest)
        return await self._send(
            "patch",
            "/".join((kind.plural, *subresource)),
            kind.path(meta["namespace"], meta["name"], *subresource),
            query={"fieldManager": naming.FIELD_MANAGER, "force": str(force).lower()},
            content="application/apply-patch+yaml",
            body=manifest,
        )

    async def _send(
        self,
        verb: str,
        resource: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
    ) -> Manifest:
        """The object in an answer."""
        answer, size = await self._send_sized(
            verb, resource, path, query=query, body=body, content=content
        )
        if size <= SMALL_BYTES:
            return answer
        return bounded(answer, is_stream=resource.partition("/")[0] == STREAM.plural)

    async def _send_sized(
        self,
        verb: str,
        resource: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
        max_bytes: int | None = None,
    ) -> tuple[Manifest, int]:
        """An answer, and its size in bytes. Raises _AnswerTooLarge above `max_bytes`."""
        started, code = time.perf_counter(), 0
        async with self._slots:
            if verb not in _READS and not self._may_write():
                raise ApiError(0, "NotLeader", "another operator may have taken over")
            try:
                data, code = await self._request(
                    _METHODS[verb], path, query, body, content, max_bytes
                )
                return rest_api.parse(data), len(data)
            except ApiError as error:
                code = error.code
                raise
            finally:
                self._on_call(ApiCall(verb, resource, code, time.perf_counter() - started))

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content: str,
        max_bytes: int | None,
    ) -> tuple[bytes, int]:
        """The answer and its HTTP status."""
        response = await self._open(method, path, query, body, content)
        data = bytearray()
        try:
            async for chunk in response.response.content.iter_any():
                data += chunk
                if max_bytes is not None and len(data) > max_bytes:
                    response.response.close()
                    raise _AnswerTooLarge
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise rest_api.unreachable(error) from error
        return bytes(data), int(response.status)

    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
        limits: float | aiohttp.ClientTimeout = _TIMEOUT_SECONDS,
    ) -> Any:
        """Begins an answer. The client's typed methods would drop unknown fields."""
        try:
            request = await self._client.param_serialize(
                method,
                path,
                query_params=[(name, value) for name, value in (query or {}).items() if value],
                header_params={"Accept": "application/json", "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*request, _request_timeout=limits)
            if 200 <= response.status < 300:
                return response
            data = await response.read()
        except ApiException as error:
            after = (error.headers or {}).get("Retry-After")
            raise rest_api.refusal(error.status or 0, error.reason, error.body, after) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise rest_api.unreachable(error) from error
        after = (response.headers or {}).get("Retry-After")
        raise rest_api.refusal(response.status, response.reason, data, after)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of an answer. aiohttp's own may have 4 MiB, which one ConfigMap can exceed."""
    line = bytearray()
    async for chunk in content.iter_any():
        *ends, begun = chunk.split(b"\n")
        for end in ends:
            yield bytes(line) + end
            line.clear()
        line += begun
        if len(line) > _LONGEST_LINE:
            raise ApiError(413, "TooLarge", f"an event has more than {_LONGEST_LINE} bytes")
