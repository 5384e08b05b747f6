"""What the API server in memory answers, the real one answers as well.

The unit tests of the operator rest on it, so both go through the same requests here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, Protocol

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest, Ref
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import Stream
from penstock.contract import naming
from penstock.controller.kubernetes.api_client import KubernetesApi
from penstock.controller.situation import ObservedStream
from penstock.controller.status.stream_events import event_manifest, image_stopped
from testkit.controller import samples
from testkit.controller.control_plane import Namespace
from testkit.controller.fake_cluster import FakeCluster

CONFIG = naming.config_name(samples.NAME, "hash")


class Others(Protocol):
    """People and tools beside the operator."""

    namespace: str
    api: KubernetesApi

    async def edit(self, **spec: Any) -> None: ...
    async def annotate(self, value: str) -> None: ...
    async def create_config(self, data: dict[str, str]) -> None: ...
    async def delete_stream(self) -> None: ...
    async def wait(self) -> None:
        """Until the next second: the times of writes have whole ones."""


class InMemory:
    namespace = "default"

    def __init__(self) -> None:
        self._cluster = FakeCluster()
        self.api: KubernetesApi = self._cluster.api

    async def edit(self, **spec: Any) -> None:
        self._cluster.apply(**spec)

    async def annotate(self, value: str) -> None:
        self._cluster.annotate("example.com/note", value)

    async def create_config(self, data: dict[str, str]) -> None:
        self._cluster.api.put(_config(self.namespace, data))

    async def delete_stream(self) -> None:
        self._cluster.delete()

    async def wait(self) -> None:
        self._cluster.clock.advance(1)


class Real:
    def __init__(self, space: Namespace) -> None:
        self._space = space
        self.namespace = space.name
        self.api: KubernetesApi = space.api

    async def edit(self, **spec: Any) -> None:
        await self._space.apply(**spec)

    async def annotate(self, value: str) -> None:
        await self._space.kubectl(
            "annotate", "--overwrite", "cstream", samples.NAME, f"example.com/note={value}"
        )

    async def create_config(self, data: dict[str, str]) -> None:
        text = json.dumps(_config(self.namespace, data))
        await self._space.kubectl("create", "-f", "-", stdin=text)

    async def delete_stream(self) -> None:
        await self._space.kubectl("delete", "cstream", samples.NAME)

    async def wait(self) -> None:
        await asyncio.sleep(1.1)


def _config(namespace: str, data: dict[str, str]) -> Manifest:
    labels = {naming.LABEL_STREAM: samples.NAME}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG, "namespace": namespace, "labels": labels},
        "data": data,
    }


async def _said(request: Awaitable[object]) -> object:
    """The code of an error and whether it is final, or that there was none."""
    try:
        await request
    except ApiError as error:
        return error.code, error.refused
    return "done"


async def test_a_stream_and_its_status(space: Namespace) -> None:
    assert await _of_a_stream(InMemory()) == await _of_a_stream(Real(space))


async def _of_a_stream(others: Others) -> list[object]:
    api, said = others.api, list[object]()

    async def read() -> Stream:
        found = await api.get(kinds.STREAM, others.namespace, samples.NAME)
        assert found is not None
        return Stream(found)

    def status(of: Stream, **meta: str) -> Manifest:
        kept = {"uid": of.uid, "resourceVersion": of.version, **meta}
        names = {"name": of.name, "namespace": of.namespace}
        return {
            "apiVersion": kinds.STREAM.api_version,
            "kind": kinds.STREAM.kind,
            "metadata": {**names, **kept},
            "status": {"observedGeneration": of.generation, "state": "Running"},
        }

    said.append(await api.get(kinds.STREAM, others.namespace, samples.NAME))
    await others.edit()
    first = await read()
    said.append(("created", first.generation, first.has_status))
    await others.wait()
    said.append(await _said(api.apply_status(status(first))))
    second = await read()
    said.append(("a status", second.generation, second.version != first.version))
    said.append(("is no edit", second.spec_edited == first.spec_edited))
    said.append(("written", second.status_written is not None))
    said.append(await _said(api.apply_status(status(first))))
    said.append(await _said(api.apply_status(status(second, uid="another"))))
    said.append(("the same", (await read()).version == second.version))
    await others.wait()
    await others.annotate("1")
    third = await read()
    said.append(("annotated", third.generation, third.spec_edited == first.spec_edited))
    said.append(await _said(api.apply_status(status(second))))
    await others.wait()
    await others.edit(executor={"cores": 2})
    fourth = await read()
    said.append(("edited", fourth.generation, fourth.spec_edited > first.spec_edited))
    said.append(("kept", fourth.has_status, fourth.annotations.get("example.com/note")))
    observed = ObservedStream(fourth.manifest)
    event = event_manifest(image_stopped("an:image"), observed, fourth.spec_edited)
    said += [await _said(api.create_event(event)), await _said(api.create_event(event))]
    await others.delete_stream()
    said.append(await _said(api.apply_status(status(fourth))))
    await others.edit()
    again = await read()
    said.append(("another", again.uid != first.uid, again.generation, again.has_status))
    said.append(await _said(api.apply_status(status(fourth))))
    return said


async def test_an_object_that_others_write_too(space: Namespace) -> None:
    said = await _of_an_object(InMemory())
    assert said == await _of_an_object(Real(space))
    # Of another object of its name: the next look finds that one.
    assert (422, False) in said


async def _of_an_object(others: Others) -> list[object]:
    api, said = others.api, list[object]()
    labels = {naming.LABEL_STREAM: samples.NAME}

    async def read() -> Object | None:
        found = await api.get(kinds.CONFIG_MAP, others.namespace, CONFIG)
        return None if found is None else Object(found)

    def config(data: dict[str, str], **meta: str) -> Manifest:
        made = _config(others.namespace, data)
        return {**made, "metadata": {**made["metadata"], **meta}}

    async def apply(data: dict[str, str], *, force: bool, **meta: str) -> None:
        said.append(await _said(api.apply(config(data, **meta), force=force)))
        there = await read()
        said.append(None if there is None else there.manifest.get("data"))

    await apply({"ours": "1"}, force=False, uid="another")
    await others.create_config({"theirs": "1", "both": "1"})
    found = await read()
    assert found is not None
    await apply({"both": "2", "ours": "2"}, force=False)
    await apply({"both": "2", "ours": "2"}, force=True, uid="another")
    await apply({"both": "2", "ours": "2"}, force=True, uid=found.uid)
    before = await read()
    await apply({"both": "2", "ours": "2"}, force=True)
    after = await read()
    assert before is not None
    assert after is not None
    said.append(("the same again", before.version == after.version))
    said.append(("written by us", after.is_written_by(naming.FIELD_MANAGER)))
    await apply({"both": "2"}, force=True)
    listed = await api.list(kinds.CONFIG_MAP, others.namespace, labels)
    said.append([each["metadata"]["name"] for each in listed])
    said.append(len(await api.list(kinds.CONFIG_MAP, others.namespace, {"no": "such"})))
    for uid in ("another", found.uid, found.uid):
        ref = Ref(kinds.CONFIG_MAP, others.namespace, CONFIG, uid)
        said.append(await _said(api.delete(ref)))
        said.append(("is there", await read() is not None))
    return said
