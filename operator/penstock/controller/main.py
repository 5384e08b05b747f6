"""Runs the operator: what `penstock operator` calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from kubernetes.aio.client import Configuration
from prometheus_client import start_http_server

from penstock.cluster import kinds
from penstock.cluster.rest_api import ApiError, selector
from penstock.contract import naming
from penstock.contract.log_lines import JsonFormatter
from penstock.controller import handlers
from penstock.controller.health_page import any_address, health_page
from penstock.controller.kubernetes.api_client import KubernetesApiClient, load_configuration
from penstock.controller.kubernetes.leader_election import LeaderElection, LeaseName
from penstock.controller.kubernetes.object_cache import WATCHED_LABELS, ObjectCache
from penstock.controller.kubernetes.selected_namespaces import SelectedNamespaces
from penstock.controller.kubernetes.watch import Watch
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.operator_settings import Settings
from penstock.controller.reconciler import Reconciler
from penstock.controller.standby import ShownStreams, Standby
from penstock.controller.work_queue import WorkQueue

log = logging.getLogger(__name__)

_CRD_POLL_SECONDS = 2.0
# So long a start waits for the lists; what is not there by then is asked of the API server.
_LISTS_SECONDS = 60.0
# Python's parser of JSON fails beyond its recursion limit, 1000 by default. The API server stores
# 10,000 levels where the schema declares none (podTemplate): so one object could end the watch of
# all.
_RECURSION_LIMIT = 30_000


def run(
    settings: Settings,
    health_port: int | None = 8080,
    metrics_port: int | None = 9090,
    lease: LeaseName | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT.

    A port of None is not opened. No lease: there is no other operator.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    # Kopf logs its own start, and aiohttp the kubelet's probes. The reconciler logs what changes.
    for noisy in ("kopf", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    metrics = OperatorMetrics()
    if metrics_port is not None:
        start_http_server(metrics_port, any_address(), registry=metrics.registry)
    asyncio.run(_until_signal(settings, health_port, metrics, lease))


async def _until_signal(
    settings: Settings,
    health_port: int | None,
    metrics: OperatorMetrics,
    lease: LeaseName | None,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await operate(
        await load_configuration(),
        metrics,
        settings=settings,
        health_port=health_port,
        stop=stop,
        lease=lease,
    )


async def operate(
    configuration: Configuration,
    metrics: OperatorMetrics,
    *,
    settings: Settings,
    stop: asyncio.Event,
    health_port: int | None = None,
    ready: asyncio.Event | None = None,
    lease: LeaseName | None = None,
) -> None:
    """Runs the whole operator in this event loop, until `stop` is set or a part of it fails."""
    sys.setrecursionlimit(_RECURSION_LIMIT)
    queue = WorkQueue(settings.work_queue)
    election = LeaderElection(configuration, lease) if lease is not None else None
    # Without an election, from the takeover on: the lists before it are no events.
    started = asyncio.Event()
    leads = election.leads if election is not None else started.is_set
    watches: list[Watch] = []

    def watch_ages() -> Mapping[str, float]:
        ages = {kinds.STREAM.plural: cache.unshown} if watches else {}
        for watch in watches:
            ages[watch.kind.plural] = max(watch.age, ages.get(watch.kind.plural, 0.0))
        return ages

    async with (
        health_page(health_port, watch_ages),
        KubernetesApiClient(configuration, metrics.count_request, leads) as api,
    ):
        await _wait_for_crd(api, stop)
        if stop.is_set():
            return
        cache, selected = ObjectCache(api), SelectedNamespaces()
        selector_text = str(settings.watch_namespace_selector)

        def is_watched(namespace: str) -> bool:
            return not selector_text or namespace in selected

        def make_reconciler() -> Reconciler:
            return Reconciler(api, cache, metrics, settings, wake=queue.add, is_watched=is_watched)

        standby = Standby(make_reconciler, cache, queue, leads, is_watched)
        watches += _watches(api, cache, standby, settings)
        streams = ShownStreams(standby, cache, settings.class_name)
        watches += [
            Watch(api, streams, kinds.STREAM, namespace, "", standby.stream_gone)
            for namespace in settings.watch_namespaces or [""]
        ]
        if selector_text:
            changed = standby.namespace_changed
            watches.append(Watch(api, selected, kinds.NAMESPACE, "", selector_text, changed))
        metrics.show_watches(watch_ages)

        def take_over() -> None:
            started.set()
            metrics.take_over(queue)
            standby.take_over()

        @asynccontextmanager
        async def alive() -> AsyncIterator[None]:
            async with (
                _watching(watches, stop),
                _campaign(election, take_over, metrics.step_back),
                queue.run(standby.reconcile, settings.work_queue.max_concurrent_reconciles),
            ):
                yield

        await handlers.run(alive, configuration=configuration, ready=ready, stop=stop)


def _watches(
    api: KubernetesApiClient,
    cache: ObjectCache,
    standby: Standby,
    settings: Settings,
) -> list[Watch]:
    """The watches of the objects of streams of this class, which they have as a label."""
    name = settings.class_name
    of_class = f"{naming.LABEL_CLASS}={name}" if name else f"!{naming.LABEL_CLASS}"
    return [
        Watch(api, cache, kind, namespace, ",".join(filter(None, selectors)), standby.child_changed)
        for kind in kinds.CHILDREN
        for selectors in [(naming.LABEL_STREAM, of_class, selector(WATCHED_LABELS.get(kind, {})))]
        for namespace in settings.watch_namespaces or [""]
    ]


@asynccontextmanager
async def _watching(watches: Sequence[Watch], stop: asyncio.Event) -> AsyncIterator[None]:
    """Runs the watches until the block ends, which begins when the cache is full."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch.run()) for watch in watches]
        try:
            await _until_listed(watches, stop)
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _until_listed(watches: Sequence[Watch], stop: asyncio.Event) -> None:
    async def listed() -> None:
        for watch in watches:
            await watch.listed.wait()

    tasks = [asyncio.create_task(listed()), asyncio.create_task(stop.wait())]
    await asyncio.wait(tasks, timeout=_LISTS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _campaign(
    election: LeaderElection | None, take_over: Callable[[], None], step_back: Callable[[], None]
) -> AbstractAsyncContextManager[None]:
    """Takes part in the election; without one, this operator leads at once."""
    if election is not None:
        return election.campaign(take_over, step_back)
    take_over()
    return contextlib.nullcontext()


async def _wait_for_crd(api: KubernetesApiClient, stop: asyncio.Event) -> None:
    """Waits for the CustomResourceDefinition, which may be installed after the operator."""
    while not stop.is_set():
        try:
            if await api.serves_streams():
                return
            log.warning("waiting for the CustomResourceDefinition of ContinuousStream: install it")
        except ApiError as error:
            log.warning("waiting for the API server: %s", error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _CRD_POLL_SECONDS)
