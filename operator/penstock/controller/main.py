"""Runs the operator: what `penstock operator` calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Collection

from kubernetes.aio.client import Configuration
from prometheus_client import start_http_server

from penstock.controller import handlers
from penstock.controller.kubernetes_api import ApiError, KubernetesCluster, load_configuration
from penstock.controller.metrics import Metrics
from penstock.controller.reconciler import Reconciler
from penstock.controller.work_queue import Queue

log = logging.getLogger(__name__)

_WORKERS = 8
_CRD_POLL_SECONDS = 2.0


def run(
    default_image: str,
    namespaces: Collection[str] | None = None,
    health_port: int | None = 8080,
    metrics_port: int | None = 9090,
) -> None:
    """Runs until SIGTERM or SIGINT. Without namespaces all are watched; a port of None is shut."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # Kopf tells of each event it sees; what is done about it is logged here.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # the kubelet's probes
    metrics = Metrics()
    if metrics_port is not None:
        start_http_server(metrics_port, registry=metrics.registry)
    asyncio.run(_until_signal(default_image, namespaces or (), health_port, metrics))


async def _until_signal(
    default_image: str, namespaces: Collection[str], health_port: int | None, metrics: Metrics
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await operate(
        await load_configuration(),
        metrics,
        default_image=default_image,
        namespaces=namespaces,
        health_port=health_port,
        stop=stop,
    )


async def operate(
    configuration: Configuration,
    metrics: Metrics,
    *,
    default_image: str,
    namespaces: Collection[str],
    stop: asyncio.Event,
    health_port: int | None = None,
    ready: asyncio.Event | None = None,
) -> None:
    """The whole operator in this event loop, until told to stop or until a part of it dies."""
    queue = Queue()
    async with KubernetesCluster(configuration) as cluster:
        await _wait_for_crd(cluster, stop)
        if stop.is_set():
            return
        reconciler = Reconciler(cluster, metrics, default_image)
        # The workers begin before kopf does: it waits in vain for tasks that began after it.
        async with queue.working(reconciler.reconcile, _WORKERS):
            await handlers.watch(
                queue.add,
                configuration=configuration,
                namespaces=namespaces,
                health_port=health_port,
                ready=ready,
                stop=stop,
            )


async def _wait_for_crd(cluster: KubernetesCluster, stop: asyncio.Event) -> None:
    """Watching what is not served yet would wait for ever, as it is looked up only once."""
    while not stop.is_set():
        try:
            if await cluster.serves_streams():
                return
            log.warning("the CustomResourceDefinition of ContinuousStream is not installed yet")
        except ApiError as error:
            log.warning("waiting for the API server: %s", error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _CRD_POLL_SECONDS)
