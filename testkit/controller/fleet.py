"""Streams on a real API server whose kubelets and drivers are played by whoever asks."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime
from typing import Any

import aiohttp

from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Manifest
from penstock.cluster.pods import DriverPod
from penstock.contract import naming
from testkit.controller import samples
from testkit.kubernetes.api_server import ApiServer

_STREAMS_IN_A_NAMESPACE = 10
_AT_ONCE = 32


class Fleet:
    """The streams, and who plays their kubelets and drivers."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession, size: int) -> None:
        self._url = server.url
        self._session = session
        self.keys = [
            Key(f"team-{number // _STREAMS_IN_A_NAMESPACE}", f"stream-{number}")
            for number in range(size)
        ]
        self.hashes: dict[Key, str] = {}

    async def request(
        self, method: str, path: str, body: Manifest | None = None, kind: str = "json"
    ) -> Any:
        headers = {"Content-Type": f"application/{kind}"}
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._url + path, data=data, headers=headers
        ) as answer:
            text = await answer.text()
            if answer.status >= 400 and answer.status != 409:
                raise RuntimeError(f"{method} {path}: {answer.status} {text}")
            return json.loads(text)

    async def create_streams(self, **spec: Any) -> None:
        """Creates their namespaces, and the streams. Keywords are fields of their specs."""
        for name in sorted({key.namespace for key in self.keys}):
            await self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

        async def create(key: Key) -> None:
            stream = samples.stream(**spec)
            stream["metadata"] = {"name": key.name, "namespace": key.namespace}
            await self.request("POST", kinds.STREAM.path(key.namespace), stream)

        await in_turn(create(key) for key in self.keys)

    async def start(self, key: Key, pod: Manifest) -> None:
        """Makes a driver's pod ready, and has it say that it runs, unless another has its name now.

        A StatefulSet that is rolled out may create a pod of the revision before for a moment.
        """
        path = kinds.POD.path(key.namespace, naming.driver_pod_name(key.name))
        name = naming.config_name(key.name, DriverPod(pod).pod_hash)
        config = await self.request("GET", kinds.CONFIG_MAP.path(key.namespace, name))
        self.hashes[key] = naming.spec_hash(config["data"][naming.SPEC_FILE])
        uid = {"uid": pod["metadata"]["uid"]}
        running = {"metadata": uid, **samples.running_status()}
        await self.request("PATCH", f"{path}/status", running, "merge-patch+json")
        await self.report(key, 1, **uid)

    async def report(self, key: Key, epoch: int, **metadata: str) -> None:
        """Writes the report as a driver does, with new numbers."""
        report = samples.report(
            self.hashes[key], epoch=epoch, last_commit_time=datetime.now(UTC), lag=epoch % 7
        )
        name = naming.driver_pod_name(key.name)
        text = report.model_dump_json(by_alias=True, exclude_none=True)
        body = {"metadata": {**metadata, "annotations": {naming.ANNOTATION_REPORT: text}}}
        manager = f"fieldManager={naming.DRIVER_FIELD_MANAGER}"
        path = f"{kinds.POD.path(key.namespace, name)}?{manager}"
        await self.request("PATCH", path, body, "merge-patch+json")

    async def streams(self) -> list[Manifest]:
        return list((await self.request("GET", kinds.STREAM.path()))["items"])


def client(server: ApiServer) -> aiohttp.ClientSession:
    """Connections for a fleet."""
    trust = ssl.create_default_context(cafile=str(server.ca))
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trust, limit=2 * _AT_ONCE),
        headers={"Authorization": f"Bearer {server.token}"},
    )


async def in_turn(tasks: Iterable[Awaitable[Any]]) -> None:
    """Awaits all, some at a time."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(task: Awaitable[Any]) -> None:
        async with slots:
            await task

    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(one(task))
