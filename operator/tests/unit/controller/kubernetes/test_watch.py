"""The watches: what they show, what they leave out, and that none ends."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Kind, Manifest
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.controller import handlers, main
from penstock.controller.health_page import health_page
from penstock.controller.kubernetes import api_client
from penstock.controller.kubernetes import watch as watch_module
from penstock.controller.kubernetes.api_client import KubernetesApiClient
from penstock.controller.kubernetes.bounded_objects import stub
from penstock.controller.kubernetes.object_cache import ObjectCache
from penstock.controller.kubernetes.selected_namespaces import SelectedNamespaces
from penstock.controller.kubernetes.watch import Watch
from penstock.controller.main import _watches
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.standby import ShownStreams, Standby
from penstock.controller.work_queue import WorkQueue
from testkit.controller import samples
from testkit.controller.fake_kubernetes_api import Clock, FakeKubernetesApi
from testkit.kafka.broker import free_ports
from testkit.wait import wait_for_async

pytestmark = pytest.mark.timeout(20)

FLAGS = Key("default", samples.NAME)
BOOKMARK = ("BOOKMARK", {"metadata": {"resourceVersion": "150"}})
BROKEN = ApiError(0, "Unreachable")


class Answers:
    """An API server whose pages and changes a test writes down."""

    def __init__(self) -> None:
        self.server = FakeKubernetesApi(Clock())
        self.lists: Any = []
        self.watches: Any = []
        self.since: Any = []
        self.over = asyncio.Event()

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        return await self.server.get(kind, namespace, name)

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str],
        fields: Mapping[str, str] | None = None,
    ) -> Any:
        return await self.server.list(kind, namespace, labels, fields)

    async def pages(
        self, kind: Kind, namespace: str, selector: str
    ) -> AsyncIterator[tuple[Sequence[Manifest], str]]:
        for page in self.lists.pop(0):
            yield page, "100"

    async def events(
        self, kind: Kind, namespace: str, selector: str, version: str
    ) -> AsyncIterator[tuple[str, Manifest]]:
        self.since.append(version)
        if not self.watches:
            self.over.set()
            await asyncio.Event().wait()
        for change in self.watches.pop(0):
            if isinstance(change, Exception):
                raise change
            yield change


def role(name: str, version: int, stream: str = samples.NAME) -> Manifest:
    meta = {
        "name": name, "namespace": "default", "uid": f"uid-{name}",
        "resourceVersion": str(version), "labels": {naming.LABEL_STREAM: stream},
    }  # fmt: skip
    return {"apiVersion": kinds.ROLE.api_version, "kind": kinds.ROLE.kind, "metadata": meta}


async def watched(answers: Answers) -> tuple[ObjectCache, list[Key]]:
    """The cache and the keys that were queued, once all is told."""
    cache, queued = ObjectCache(answers), list[Key]()
    api: Any = answers
    watch = Watch(api, cache, kinds.ROLE, "", "", queued.append)
    task, over = asyncio.create_task(watch.run()), asyncio.create_task(answers.over.wait())
    await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
    assert not task.done()
    assert watch.listed.is_set()
    task.cancel()
    return cache, queued


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest that each pause of a watch may take. None takes any time."""
    longest: list[float] = []

    def uniform(_: float, high: float) -> float:
        longest.append(high)
        return 0

    monkeypatch.setattr(random, "uniform", uniform)
    return longest


async def test_a_list_of_many_pages_and_then_the_changes(waits: list[float]) -> None:
    answers = Answers()
    answers.lists = [[[role("a", 1)], [role("b", 2, "other")]]]
    answers.watches = [
        [("MODIFIED", role("a", 101)), ("DELETED", role("b", 102, "other"))],
        [BOOKMARK],
    ]
    cache, queued = await watched(answers)
    other = Key("default", "other")
    assert queued == [FLAGS, other, FLAGS, other]
    assert answers.since == ["100", "102", "150"]
    assert await cache.get(kinds.ROLE, "default", "a") == role("a", 101)
    assert await cache.get(kinds.ROLE, "default", "b") is None


async def test_after_a_410_only_what_differs_is_looked_at(waits: list[float]) -> None:
    """What was deleted meanwhile, changed, or created: no stream whose objects are the same."""
    answers = Answers()
    same, changed = role("same", 1, "same"), role("changed", 2, "changed")
    answers.lists = [
        [[same, changed, role("gone", 3, "gone")]],
        [[same, role("changed", 120, "changed"), role("new", 130, "new")]],
    ]
    answers.watches = [[ApiError(410, "Expired")]]
    _, queued = await watched(answers)
    assert [key.name for key in queued] == ["same", "changed", "gone", "changed", "new", "gone"]
    assert answers.since == ["100", "100"]


@pytest.mark.parametrize("answer", [[], [BROKEN], [OverflowError()]], ids=repr)
async def test_a_watch_that_ends_at_once_is_opened_again_ever_more_rarely(
    answer: list[Exception], waits: list[float]
) -> None:
    answers = Answers()
    answers.lists = [[[role("a", 1)]]] * 9
    answers.watches = [answer] * 7
    await watched(answers)
    assert waits == [1, 2, 4, 8, 16, 20, 20]


@pytest.mark.parametrize("answer", [[], [BROKEN], [OverflowError()]], ids=repr)
@pytest.mark.parametrize("heard", [BOOKMARK, ("MODIFIED", role("a", 101))])
async def test_an_event_or_a_bookmark_shows_that_a_watch_works(
    heard: tuple[str, Manifest], answer: list[Exception], waits: list[float]
) -> None:
    answers = Answers()
    answers.lists = [[[role("a", 1)]]] * 9
    answers.watches = [answer, answer, [heard, *answer], answer]
    await watched(answers)
    assert waits == [1, 2, 1, 2]


async def test_a_watch_that_lasted_is_opened_again_without_a_pause(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server ends each after some minutes."""
    monkeypatch.setattr(watch_module, "_SHORT_SECONDS", 0)
    answers = Answers()
    answers.lists = [[[role("a", 1)]]]
    answers.watches = [[BOOKMARK], [BOOKMARK]]
    await watched(answers)
    assert waits == []


async def test_what_no_program_can_read_ends_no_watch(waits: list[float]) -> None:
    """One object of a tenant would end the operator. A new list passes over the event."""
    answers = Answers()
    answers.lists = [[[role("a", 1)]], [[role("a", 120)]]]
    answers.watches = [[("MODIFIED", role("a", 101)), OverflowError()]]
    cache, queued = await watched(answers)
    assert queued == [FLAGS, FLAGS, FLAGS]
    assert answers.since == ["100", "100"]
    assert await cache.get(kinds.ROLE, "default", "a") == role("a", 120)


def large_config_map(version: int) -> Manifest:
    """As large as Kubernetes allows. In JSON, Go writes six characters for each of its own."""
    meta = {**role("large", version)["metadata"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "<" * 2**20}}


@asynccontextmanager
async def api_server(listed: list[Manifest], lines: list[bytes]) -> AsyncIterator[Any]:
    """A client of a server that lists these, and answers a watch with these lines."""
    async with server_of(listed, lines) as configuration, KubernetesApiClient(configuration) as api:
        yield api


@asynccontextmanager
async def server_of(listed: list[Manifest], lines: list[bytes]) -> AsyncIterator[Configuration]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == kinds.STREAM.root:
            return web.json_response({"resources": [{"name": kinds.STREAM.plural}]})
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "4"}, "items": listed})
        response = web.StreamResponse()
        await response.prepare(request)
        while lines:
            await response.write(lines.pop(0))
        await asyncio.Event().wait()
        return response

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield Configuration(host=f"http://127.0.0.1:{port}")
    finally:
        await runner.cleanup()


async def test_the_lists_of_a_start_queue_nothing_but_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they show is no event: the takeover after them looks at each stream."""
    added: list[Key] = []
    spread: list[Key] = []

    class Queue(WorkQueue):
        def add(self, key: Key, *, edit: bool = False) -> None:
            added.append(key)

        def spread(self, keys: Sequence[Key]) -> None:
            spread.extend(keys)

    async def run(alive: Any, **_: object) -> None:
        async with alive():
            pass

    monkeypatch.setattr(main, "WorkQueue", Queue)
    monkeypatch.setattr(handlers, "run", run)
    stream = {**samples.stored(), "status": {"observedGeneration": 1}}
    async with server_of([role("a", 3), stream], []) as configuration:
        await main.operate(
            configuration,
            OperatorMetrics(),
            settings=samples.SETTINGS,
            stop=asyncio.Event(),
        )
    assert (added, spread) == ([], [FLAGS])


@pytest.mark.proves("failures.md#the-api-server-is-unreachable")
@pytest.mark.parametrize("code", [410, 500, 504])
async def test_an_error_within_the_watch_of_the_streams_is_a_pause(
    code: int, waits: list[float]
) -> None:
    """When an API server restarts its storage, kopf's own watch ended the leader and the other
    operator alike.
    """
    error = {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "etcd"}}
    queued = asyncio.Queue[Key]()

    class Queue(WorkQueue):
        def add(self, key: Key, *, edit: bool = False) -> None:
            queued.put_nowait(key)

    async def has_paused() -> bool:
        return bool(waits)

    async with api_server([samples.stored()], [json.dumps(error).encode() + b"\n"]) as api:
        cache = ObjectCache(api)
        nobody: Any = None
        standby = Standby(lambda: nobody, cache, Queue(), lambda: True)
        streams = ShownStreams(standby, cache, "")
        watch = Watch(api, streams, kinds.STREAM, "", "", standby.stream_gone)
        task = asyncio.create_task(watch.run())
        assert await queued.get() == FLAGS
        await wait_for_async("the pause", has_paused)
        assert not task.done()
        task.cancel()


def line(found: Manifest) -> bytes:
    return json.dumps({"type": "ADDED", "object": found}).replace("<", "\\u003c").encode() + b"\n"


async def test_an_object_of_six_megabytes_is_one_like_any_other() -> None:
    """aiohttp's own lines end at four. Its content is nothing that Penstock would have written."""
    small = {**large_config_map(6), "data": {}}
    async with api_server([], [line(large_config_map(5)), line(small) * 2]) as api:
        seen = []
        async for change, found in api.events(kinds.CONFIG_MAP, "", "", "4"):
            seen.append((change, found))
            if len(seen) == 3:
                break
    assert seen == [("ADDED", stub(large_config_map(5))), ("ADDED", small), ("ADDED", small)]


async def test_a_line_that_never_ends_is_given_up_and_all_is_listed_anew(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "_LONGEST_LINE", 2**20)
    changed = asyncio.Event()
    lines = [b"x" * 2**20, b"x" * 2**20]
    async with api_server([role("a", 3)], lines) as api:
        cache = ObjectCache(api)
        watch = Watch(api, cache, kinds.ROLE, "", "", lambda _: changed.set())
        task = asyncio.create_task(watch.run())
        await changed.wait()
        cache.remove(role("a", 3))
        changed.clear()
        await changed.wait()
        assert not task.done()
        task.cancel()
    assert waits == [1]


async def test_events_that_come_twice_or_late_change_nothing(waits: list[float]) -> None:
    answers = Answers()
    answers.lists = [[[role("a", 5)]]]
    answers.watches = [
        [("MODIFIED", role("a", 5)), ("ADDED", role("a", 4)), ("MODIFIED", role("a", 6))],
        [("MODIFIED", role("a", 6))],
    ]
    cache, queued = await watched(answers)
    assert queued == [FLAGS, FLAGS]
    assert await cache.get(kinds.ROLE, "default", "a") == role("a", 6)


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_the_namespaces_of_a_selector_come_and_go(waits: list[float]) -> None:
    """Also while nobody watched: a new list is without those that have lost their labels."""
    answers = Answers()
    answers.lists = [[[namespace("a"), namespace("b")]], [[namespace("b"), namespace("d")]]]
    answers.watches = [
        [("MODIFIED", namespace("b")), ("ADDED", namespace("c")), ("DELETED", namespace("c"))],
        [ApiError(410, "Expired")],
    ]
    selected, changed = SelectedNamespaces(), list[Key]()
    api: Any = answers
    watch = Watch(api, selected, kinds.NAMESPACE, "", "streams=yes", changed.append)
    task = asyncio.create_task(watch.run())
    await answers.over.wait()
    task.cancel()
    assert [key.name for key in changed] == ["a", "b", "c", "c", "d", "a"]
    assert [name in selected for name in "abcd"] == [False, True, False, True]


@pytest.mark.parametrize(
    ("class_name", "of_class"), [("", "!penstock.dev/class"), ("blue", "penstock.dev/class=blue")]
)
def test_the_server_sends_only_objects_of_streams_of_the_class_and_no_executors(
    class_name: str, of_class: str
) -> None:
    """Without a selector this process would hold every pod of the cluster in memory."""
    nobody: Any = None

    class Changes:
        def child_changed(self, key: Key) -> None:
            """Nobody calls it."""

    changes: Any = Changes()
    settings = replace(samples.SETTINGS, class_name=class_name, watch_namespaces=("one", "two"))
    watches = _watches(nobody, nobody, changes, settings)
    selectors = {(watch.kind.kind, watch._selector) for watch in watches}
    expected = f"penstock.dev/stream,{of_class}"
    driver = "app.kubernetes.io/component=driver"
    assert selectors == {
        (kind.kind, f"{expected},{driver}" if kind is kinds.POD else expected)
        for kind in kinds.CHILDREN
    }
    assert {watch._namespace for watch in watches} == {"one", "two"}


async def test_metric_and_health_page_know_a_silent_watch() -> None:
    ages = {"pods": 400.0, "roles": 3.0}
    metrics = OperatorMetrics()
    metrics.show_watches(lambda: ages)
    value = metrics.registry.get_sample_value
    assert value("penstock_operator_watch_age_seconds", {"resource": "pods"}) == 400
    assert value("penstock_operator_watch_age_seconds", {"resource": "roles"}) == 3
    (port,) = free_ports(1)
    async with (
        health_page(port, lambda: ages),
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/healthz") as answer,
    ):
        assert answer.status == 200  # a restart gives back no right that is missing
        assert await answer.json() == {"healthy": True, "silentWatches": {"pods": 400}}
