"""Runs the operator: what `penstock operator` calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager

from kubernetes.aio.client import Configuration
from prometheus_client import start_http_server

from penstock.cluster.rest import ApiError
from penstock.contract.log_lines import JsonFormatter
from penstock.controller import handlers
from penstock.controller.health_page import any_address, health_page
from penstock.controller.kubernetes.api_client import KubernetesApiClient, load_configuration
from penstock.controller.kubernetes.leader_election import LeaderElection, LeaseName
from penstock.controller.metrics import Metrics
from penstock.controller.operator_settings import Settings
from penstock.controller.reconciler import Reconciler
from penstock.controller.standby import Standby
from penstock.controller.work_queue import WorkQueue

log = logging.getLogger(__name__)

# Far more than one tenant should have streams: each may wait for its texts to be judged.
_AT_ONCE = 1024
_CRD_POLL_SECONDS = 2.0
# Python's parser of JSON, in kopf's watch and in the client, fails beyond its recursion limit, 1000
# by default. The API server stores 10,000 levels where the schema declares none (podTemplate): so
# one object could end the watch of all.
_RECURSION_LIMIT = 30_000


def run(
    settings: Settings,
    namespaces: Collection[str] | None = None,
    health_port: int | None = 8080,
    metrics_port: int | None = 9090,
    lease: LeaseName | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT.

    No namespaces: all of them. A port of None is not opened. No lease: there is no other operator.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Kopf logs every event that it receives. The reconciler logs what changes.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # the kubelet's probes
    metrics = Metrics()
    if metrics_port is not None:
        start_http_server(metrics_port, any_address(), registry=metrics.registry)
    asyncio.run(_until_signal(settings, namespaces or (), health_port, metrics, lease))


async def _until_signal(
    settings: Settings,
    namespaces: Collection[str],
    health_port: int | None,
    metrics: Metrics,
    lease: LeaseName | None,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await operate(
        await load_configuration(),
        metrics,
        settings=settings,
        namespaces=namespaces,
        health_port=health_port,
        stop=stop,
        lease=lease,
    )


async def operate(
    configuration: Configuration,
    metrics: Metrics,
    *,
    settings: Settings,
    namespaces: Collection[str],
    stop: asyncio.Event,
    health_port: int | None = None,
    ready: asyncio.Event | None = None,
    lease: LeaseName | None = None,
) -> None:
    """Runs the whole operator in this event loop, until `stop` is set or a part of it fails."""
    sys.setrecursionlimit(_RECURSION_LIMIT)
    queue = WorkQueue()
    election = LeaderElection(configuration, lease) if lease is not None else None
    leads = election.leads if election is not None else lambda: True
    async with (
        health_page(health_port),
        KubernetesApiClient(configuration, metrics.count_request, leads) as api,
    ):
        await _wait_for_crd(api, stop)
        if stop.is_set():
            return
        standby = Standby(lambda: Reconciler(api, metrics, settings), queue.add, leads)

        def take_over() -> None:
            metrics.take_over(queue)
            standby.take_over()

        # These start before kopf: on its way out, kopf waits for tasks that started after it.
        async with (
            _campaign(election, take_over, metrics.step_back),
            queue.run(standby.reconcile, _AT_ONCE),
        ):
            await handlers.watch(
                standby,
                configuration=configuration,
                class_name=settings.class_name,
                namespaces=namespaces,
                ready=ready,
                stop=stop,
            )


def _campaign(
    election: LeaderElection | None, take_over: Callable[[], None], step_back: Callable[[], None]
) -> AbstractAsyncContextManager[None]:
    """Takes part in the election; without one, this operator leads at once."""
    if election is not None:
        return election.campaign(take_over, step_back)
    take_over()
    return contextlib.nullcontext()


async def _wait_for_crd(api: KubernetesApiClient, stop: asyncio.Event) -> None:
    """Waits for the CustomResourceDefinition, because kopf looks it up only once, at its start."""
    while not stop.is_set():
        try:
            if await api.serves_streams():
                return
            log.warning("waiting for the CustomResourceDefinition of ContinuousStream: install it")
        except ApiError as error:
            log.warning("waiting for the API server: %s", error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _CRD_POLL_SECONDS)
