"""Objects that a tenant made large cost the operator a bounded part of its memory."""

from __future__ import annotations

import json
import random
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Manifest
from penstock.cluster.objects import Object
from penstock.cluster.stream import Stream
from penstock.contract import naming
from penstock.controller.kubernetes import api_client, object_cache
from penstock.controller.kubernetes.api_client import KubernetesApiClient
from penstock.controller.kubernetes.bounded_objects import bounded, stub
from penstock.controller.kubernetes.object_cache import ObjectCache
from penstock.controller.observation import parse_stream
from penstock.validation.rules.spec_size import MOST_BYTES, measure
from testkit.controller import samples
from testkit.controller.fake_kubernetes_api import Clock, FakeKubernetesApi

TEXT = "".join(random.Random(1).choices(string.ascii_letters, k=900_000))


def config_map(number: int, content: str = TEXT) -> Manifest:
    meta = {
        "name": f"large-{number:03}", "namespace": "default", "uid": f"uid-{number}",
        "resourceVersion": "7", "labels": {naming.LABEL_STREAM: samples.NAME},
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": content}}


def large_stream() -> Manifest:
    """A stream as large as the API server takes it, that is to be stopped and to keep its data."""
    raw = samples.stored(
        suspend=True,
        checkpoint={"volume": {"reclaimPolicy": "Retain"}},
        driver={"podTemplate": {"metadata": {"annotations": {"a": TEXT}}}},
    )
    raw["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": TEXT}
    return raw


@asynccontextmanager
async def serving(objects: list[Manifest]) -> AsyncIterator[tuple[KubernetesApiClient, list[int]]]:
    """A client of a server that lists these in pages, and how many objects it asked for."""
    limits: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        limit, first = int(request.query["limit"]), int(request.query.get("continue", "0"))
        limits.append(limit)
        last = first + limit
        more = str(last) if last < len(objects) else ""
        meta = {"resourceVersion": "9", "continue": more}
        return web.json_response({"metadata": meta, "items": objects[first:last]})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        configuration = Configuration(host=str(server.make_url("")))
        async with KubernetesApiClient(configuration) as api:
            yield api, limits


@pytest.mark.proves("decisions/bounded-tenants.md")
async def test_pages_of_large_objects_are_small() -> None:
    """Fifty of 900 kB in one answer took 200 MiB, and five hundred are none."""
    many = [config_map(number) for number in range(20)]
    async with serving(many) as (api, limits):
        found = [page async for page, _ in api.pages(kinds.CONFIG_MAP, "", "")]
    names = [Object(each).name for page in found for each in page]
    assert names == [each["metadata"]["name"] for each in many]
    assert max(map(len, found)) * len(TEXT) <= api_client._PAGE_BYTES + len(TEXT)
    assert limits[:2] == [50, 6]


async def test_pages_of_small_objects_grow() -> None:
    async with serving([config_map(number, "small") for number in range(2000)]) as (api, limits):
        found = [len(page) async for page, _ in api.pages(kinds.CONFIG_MAP, "", "")]
    assert sum(found) == 2000
    assert limits == [50, 100, 200, 400, 500, 500, 500]


@pytest.mark.proves("decisions/bounded-tenants.md")
async def test_a_list_of_large_objects_is_of_stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that are just below the bound of one object: their number has none."""
    monkeypatch.setattr(api_client, "_LIST_BYTES", 10 * 400_000)
    async with serving([config_map(number, TEXT[:400_000]) for number in range(40)]) as (api, _):
        found = await api.list(kinds.CONFIG_MAP, "default", {})
    assert len(found) == 40
    assert 0 < sum("data" in each for each in found) <= 10
    assert all(Object(each).uid and each["metadata"]["labels"] for each in found)


def test_of_a_large_object_remains_what_it_is() -> None:
    assert bounded(config_map(1, "small")) == config_map(1, "small")
    found = bounded(config_map(1))
    assert "data" not in found
    assert found["metadata"] | config_map(1)["metadata"] == found["metadata"]


@pytest.mark.parametrize("part", ["labels", "annotations", "finalizers", "ownerReferences"])
def test_nothing_of_the_metadata_has_no_bound(part: str) -> None:
    found = config_map(1, "small")
    many = {f"a/{number}": "x" * 60 for number in range(20_000)}
    found["metadata"][part] = many if part in ("labels", "annotations") else [many] * 2
    found["metadata"]["managedFields"] = [{"manager": "x" * 100}] * 20_000
    assert measure(stub(found)) < 64_000


@pytest.mark.proves("decisions/bounded-tenants.md")
def test_a_spec_that_is_too_large_is_cut_and_said() -> None:
    """Without being read. Its person may still stop the stream, and its checkpoint is kept."""
    whole = parse_stream(large_stream(), samples.SETTINGS)
    cut = bounded(large_stream(), is_stream=True)
    assert measure(cut) < 16_000
    found = parse_stream(cut, samples.SETTINGS)
    assert found.problems == whole.problems
    assert [each.reason for each in found.problems] == ["SpecTooLarge"]
    assert "KiB" in found.problems[0].message
    assert (found.desired, found.suspended, found.retains_checkpoint) == (None, True, True)


def test_the_largest_spec_that_is_read_fits_the_objects_that_are_made_of_it() -> None:
    """Its ConfigMap and its record are read back whole."""
    raw = samples.stored()
    filler = MOST_BYTES - measure(raw["spec"]) - 200
    raw["spec"]["driver"] = {"podTemplate": {"metadata": {"annotations": {"a": TEXT[:filler]}}}}
    found = parse_stream(bounded(raw, is_stream=True), samples.SETTINGS)
    assert found.desired is not None
    assert bounded(raw, is_stream=True) == raw
    held = {"data": {naming.SPEC_FILE: found.desired.document}}
    assert bounded(held) == held


def test_a_document_that_grows_in_yaml_is_refused() -> None:
    """Which a ConfigMap could not hold."""
    deep: object = [1] * 50
    for _ in range(25):
        deep = {"a": deep}
    spec = {"driver": {"podTemplate": {"metadata": {"x": [deep] * 500}}}}
    found = parse_stream(samples.stored(**spec), samples.SETTINGS)
    assert found.desired is None


@pytest.mark.proves("decisions/bounded-tenants.md")
async def test_what_a_namespace_has_beyond_its_bound_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_cache, "_NAMESPACE_BYTES", 2_000)
    api = FakeKubernetesApi(Clock())
    cache = ObjectCache(api)
    for number in range(20):
        cache.put(api.put(config_map(number, TEXT[:500])), listed=True)
    cache.retain(kinds.CONFIG_MAP, "default", [Key("default", f"large-{n:03}") for n in range(20)])
    assert cache._bytes["default"] <= 2_000
    found = await cache.list(kinds.CONFIG_MAP, "default", {naming.LABEL_STREAM: samples.NAME})
    assert len(found) == 20
    one = await cache.get(kinds.CONFIG_MAP, "default", "large-019")
    assert one is not None
    assert one["data"] == {"k": TEXT[:500]}
    for number in range(20):
        cache.remove(config_map(number))
    assert cache._bytes["default"] == 0


async def test_an_image_that_cannot_be_read_leaves_what_is_held() -> None:
    """A deadline that is no date raised an error, and the stream was in no cache."""
    cache = ObjectCache(FakeKubernetesApi(Clock()))
    cache.put(samples.stored())
    odd = samples.stored(rollout={"deadline": "999999999h"})
    odd["metadata"]["resourceVersion"] = "2"
    odd["status"] = {"rollout": {"startTime": "9999-12-31T00:00:00Z", "revision": "a"}}
    cache.put(json.loads(json.dumps(odd)))
    held = await cache.get(kinds.STREAM, "default", samples.NAME)
    assert held is not None
    assert Stream(held).version == "2"
