"""The only module that uses kopf, which is the frame of the operator: it starts and ends it.

kopf watches nothing. Its lists end in no known state, it holds whole objects in queues of its own,
and it ends the operator at an error in the middle of a watch, in the leader and in the one that
waits alike. So streams have a watch of our own, as their objects do (`kubernetes/watch.py`). Nor
does kopf keep state on the resources: no finalizer, so users can delete a stream while no operator
runs; no annotation, so a GitOps tool sees no drift.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import count, repeat
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from penstock.api import group_version

# The API server may refuse a valid token while it starts, and one that is not valid for ever.
_LOGIN_RETRY_SECONDS = 1.0


class _Backoffs:
    """Seconds between kopf's attempts at a request, which never run out.

    When they do, kopf ends the operator, and with it the work for all namespaces.
    """

    def __iter__(self) -> Iterator[float]:
        yield from (1, 1, 2, 3, 5, 8, 13)
        yield from repeat(20)


async def run(
    alive: Callable[[], AbstractAsyncContextManager[None]],
    *,
    configuration: Configuration,
    stop: asyncio.Event,
    ready: asyncio.Event | None = None,
) -> None:
    """Enters `alive`, which holds the operator's work, and leaves it when `stop` is set or a signal
    ends the process. What fails in there ends kopf too, and is raised.

    `ready` is set once it is entered.
    """
    registry = _registry(configuration)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with alive():
            entered.set()
            await leave.wait()

    work: list[asyncio.Task[None]] = []

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        task = asyncio.create_task(live())
        task.add_done_callback(lambda _: stop.set())
        work.append(task)
        first = asyncio.create_task(entered.wait())
        await asyncio.wait([task, first], return_when=asyncio.FIRST_COMPLETED)
        first.cancel()

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:
        leave.set()
        await asyncio.wait(work)

    try:
        await kopf.operator(
            registry=registry,
            settings=_settings(),
            standalone=True,
            clusterwide=True,
            ready_flag=ready,
            stop_flag=stop,
        )
    finally:
        for task in work:
            task.cancel()  # unless it has ended
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _registry(configuration: Configuration) -> Any:
    registry = kopf.OperatorRegistry()
    answers = count()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        number = next(answers)
        if number > 0:
            await asyncio.sleep(_LOGIN_RETRY_SECONDS)
        return await _connection(configuration, number)

    return registry


async def _connection(configuration: Configuration, number: int) -> kopf.ConnectionInfo:
    """The client's own credentials, with which kopf asks at its start what the server serves.

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
    settings.scanning.disabled = True  # so kopf needs no right to watch CustomResourceDefinitions
    settings.persistence.finalizer = f"{group_version.GROUP}/unused"
    return settings
