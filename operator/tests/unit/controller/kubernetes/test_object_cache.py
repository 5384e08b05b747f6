"""The cache behind the reconciler: what the watches have shown, and what is asked for."""

from __future__ import annotations

import pytest

from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Manifest
from penstock.contract import naming
from penstock.controller.kubernetes.object_cache import ObjectCache
from testkit.controller import samples
from testkit.controller.fake_kubernetes_api import Clock, FakeKubernetesApi

FLAGS = Key("default", samples.NAME)


def version(number: int, uid: str = "uid") -> Manifest:
    """A version of a stream."""
    stream = samples.stored()
    stream["metadata"] |= {"resourceVersion": str(number), "uid": uid}
    return stream


async def test_an_older_object_of_another_list_counts() -> None:
    """After the API server was restored from a backup, versions begin anew."""
    cache = ObjectCache(FakeKubernetesApi(Clock()))
    cache.put(version(500))
    assert cache.put(version(7)) is None
    assert cache.put(version(7), listed=True) == FLAGS


async def test_what_a_watch_shows_is_not_asked_for() -> None:
    """And what it does not show once a minute: a ServiceAccount that the spec names."""
    api = FakeKubernetesApi(Clock())
    api.put(samples.driver_pod("abc"))
    clock = Clock()
    cache = ObjectCache(api, lambda: clock.time.timestamp())
    cache.put(api.one(kinds.POD, "flags-driver-0"))
    cache.retain(kinds.POD, "", [Key("default", "flags-driver-0")])
    of_driver = {
        naming.LABEL_STREAM: samples.NAME, naming.LABEL_COMPONENT: naming.COMPONENT_DRIVER
    }  # fmt: skip
    assert await cache.get(kinds.POD, "default", "flags-driver-0") is not None
    assert len(await cache.list(kinds.POD, "default", of_driver)) == 1
    assert len(api.reads) == 0
    for _ in range(59):
        clock.advance(1)
        assert await cache.get(kinds.SERVICE_ACCOUNT, "default", "theirs") is None
    assert len(api.reads) == 1
    clock.advance(2)
    await cache.get(kinds.SERVICE_ACCOUNT, "default", "theirs")
    assert len(api.reads) == 2


async def test_an_object_of_a_class_that_is_not_watched_is_asked_for_each_time() -> None:
    """It is in the way of a stream that moves to another class, until it is gone."""
    api = FakeKubernetesApi(Clock())
    api.put(samples.driver_pod("abc"))
    cache = ObjectCache(api)
    cache.retain(kinds.POD, "", [])
    assert await cache.get(kinds.POD, "default", "flags-driver-0") is not None
    api.remove(api.one(kinds.POD, "flags-driver-0"))
    assert await cache.get(kinds.POD, "default", "flags-driver-0") is None


async def test_a_kind_whose_list_is_not_there_yet_is_asked_for() -> None:
    api = FakeKubernetesApi(Clock())
    api.put(samples.driver_pod("abc"))
    labels = {naming.LABEL_STREAM: samples.NAME, naming.LABEL_COMPONENT: naming.COMPONENT_DRIVER}
    assert len(await ObjectCache(api).list(kinds.POD, "default", labels)) == 1


async def test_managed_fields_are_held_without_the_fields() -> None:
    """But with whether the spec is among them."""
    pod = samples.driver_pod("abc")
    pod["metadata"] |= {
        "resourceVersion": "1",
        "managedFields": [
            {"manager": "me", "time": "then", "fieldsV1": {"f:spec": {"f:suspend": {}}}},
            {"manager": "you", "time": "now", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
        ],
    }
    cache = ObjectCache(FakeKubernetesApi(Clock()))
    cache.put(pod)
    held = await cache.get(kinds.POD, "default", "flags-driver-0")
    assert held is not None
    assert held["metadata"]["managedFields"] == [
        {"manager": "me", "time": "then", "fieldsV1": {"f:spec": {}}},
        {"manager": "you", "time": "now"},
    ]


async def test_a_write_that_no_watch_shows_gets_older() -> None:
    """So a watch of the streams that is deaf is noticed, although kopf says nothing of its own."""
    clock, stream = Clock(), samples.stored()
    cache = ObjectCache(FakeKubernetesApi(Clock()), lambda: clock.time.timestamp())
    cache.put(stream)
    assert cache.unshown == 0
    for version in ("2", "3"):
        stream["metadata"]["resourceVersion"] = version
        cache.wrote(stream)
        clock.advance(30)
    assert cache.unshown == 60
    stream["metadata"]["resourceVersion"] = "2"
    cache.put(stream)
    clock.advance(5)
    assert cache.unshown == 5
    stream["metadata"]["resourceVersion"] = "3"
    cache.put(stream)
    assert cache.unshown == 0


@pytest.mark.parametrize("asked", [False, True])
async def test_a_late_answer_brings_no_deleted_stream_back(asked: bool) -> None:
    """Nor one that was replaced: a write may end after the watch has shown the deletion."""
    clock = Clock()
    api = FakeKubernetesApi(clock)
    cache = ObjectCache(api, lambda: clock.time.timestamp())
    cache.put(version(5))
    if asked:  # as after a status that was refused
        cache.forget_stream(version(5))
        api.put(version(5))
        await cache.get(kinds.STREAM, "default", samples.NAME)
        api.remove(version(5))
    cache.remove(version(7))
    cache.wrote(version(6))
    clock.advance(1000)
    assert (cache.streams(), cache.unshown) == ([], 0)
    assert await cache.get(kinds.STREAM, "default", samples.NAME) is None
    cache.put(version(9, "another"))
    cache.wrote(version(6))
    assert await cache.get(kinds.STREAM, "default", samples.NAME) == version(9, "another")
    clock.advance(1000)
    assert cache.unshown == 0


async def test_a_write_to_a_stream_that_was_asked_for_counts() -> None:
    """A watch that is deaf shows no edit either, so each status after one is refused once."""
    clock = Clock()
    api = FakeKubernetesApi(clock)
    cache = ObjectCache(api, lambda: clock.time.timestamp())
    cache.put(version(5))
    cache.forget_stream(version(5))
    edited = api.put(version(8))
    await cache.get(kinds.STREAM, "default", samples.NAME)
    written = version(int(edited["metadata"]["resourceVersion"]) + 1)
    cache.wrote(written)
    assert await cache.get(kinds.STREAM, "default", samples.NAME) == written
    clock.advance(30)
    assert cache.unshown == 30


@pytest.mark.parametrize(
    ("held", "stays"),
    [
        (version(9), False),
        (version(8), False),
        (version(12), True),
        (version(12, "another"), True),
        (version(3, "another"), True),
    ],
    ids=["same", "older", "newer", "replaced", "replaced in a restored backup"],
)
async def test_what_is_forgotten_is_what_was_seen(held: Manifest, stays: bool) -> None:
    """A status was refused, or the stream is gone, and the watch has shown more meanwhile."""
    cache = ObjectCache(FakeKubernetesApi(Clock()))
    cache.put(held)
    cache.forget_stream(version(9))
    assert cache.streams() == [FLAGS] * stays
