"""The module that uses kopf: what it starts and ends, and with which credentials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sized
from contextlib import asynccontextmanager
from itertools import islice

import kopf
import pytest
from kopf._cogs.structs import credentials
from kubernetes.aio.client import Configuration

from penstock.controller import handlers


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_kopf_has_the_credentials_of_the_client(scheme: str) -> None:
    """The client spells the scheme differently in a pod and from a kubeconfig."""
    configuration = Configuration(host="https://api:6443")
    configuration.api_key["BearerToken"] = f"{scheme} secret"
    connection = await handlers._connection(configuration, 0)
    assert connection.as_http_headers() == {"Authorization": "Bearer secret"}
    assert connection.server == "https://api:6443"


async def test_a_renewed_token_is_used() -> None:
    """A service account's token lasts an hour. Kopf asks again when the server refuses it."""
    configuration = Configuration(host="https://api:6443")
    tokens = iter(["bearer old", "bearer new"])

    async def renew(each: Configuration) -> None:
        each.api_key["BearerToken"] = next(tokens)

    configuration.refresh_api_key_hook = renew
    seen = [(await handlers._connection(configuration, number)).token for number in range(2)]
    assert seen == ["old", "new"]


async def test_a_token_that_was_refused_once_is_tried_again() -> None:
    """An API server that starts may refuse a valid one, and kopf forgets credentials for good."""
    configuration = Configuration(host="https://api:6443")
    configuration.api_key["BearerToken"] = "Bearer secret"
    vault = credentials.Vault()
    for number in range(4):
        await vault.populate({"login": await handlers._connection(configuration, number)})
        key, item = vault.select()
        refused = asyncio.create_task(vault.invalidate(key, item.info))
        await vault.wait_for_emptiness()
        await vault.populate({"login": await handlers._connection(configuration, number + 1)})
        await refused
        info = vault.select()[1].info
        assert isinstance(info, kopf.ConnectionInfo)
        assert info.token == "secret"


def test_kopf_writes_nothing_and_needs_no_right_beyond_streams() -> None:
    settings = handlers._settings()
    assert settings.posting.enabled is False
    assert settings.scanning.disabled is True


def test_a_request_of_kopf_that_fails_ends_no_operator() -> None:
    """kopf gives up after the last of its delays, and would end the work for all namespaces."""
    delays = handlers._settings().networking.error_backoffs
    assert isinstance(delays, Iterable)
    assert not isinstance(delays, Sized)
    for _ in range(2):  # each request begins with the first
        first = list(islice(delays, 50))
        assert first[0] == 1
        assert max(first) == first[-1] == 20


NO_SERVER = Configuration(host="https://127.0.0.1:1")


async def test_kopf_starts_the_work_and_ends_it() -> None:
    """In the order in which the work itself wants to end, and before kopf is gone."""
    seen: list[str] = []
    ready, stop = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def alive() -> AsyncIterator[None]:
        seen.append("begins")
        yield
        seen.append("ends")

    running = asyncio.create_task(
        handlers.run(alive, configuration=NO_SERVER, stop=stop, ready=ready)
    )
    await ready.wait()
    assert seen == ["begins"]
    stop.set()
    await running
    assert seen == ["begins", "ends"]


async def test_what_fails_in_the_work_ends_kopf_and_is_raised() -> None:
    """A watch never fails; if one did, nobody would see the streams of an operator that goes on."""
    failing = asyncio.Event()

    @asynccontextmanager
    async def alive() -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:

            async def fail() -> None:
                await failing.wait()
                raise RuntimeError("broken")

            group.create_task(fail())
            yield

    ready = asyncio.Event()
    running = asyncio.create_task(
        handlers.run(alive, configuration=NO_SERVER, stop=asyncio.Event(), ready=ready)
    )
    await ready.wait()
    failing.set()
    with pytest.raises(ExceptionGroup):
        await running
