"""The module that uses kopf: what it watches, and with which credentials."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sized
from itertools import islice
from urllib.parse import parse_qs, urlsplit

import kopf
import pytest
from kopf._cogs.clients import api, fetching
from kopf._cogs.structs import credentials, references
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


async def test_kopf_reads_many_objects_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All streams of a large cluster in one answer take more memory than the operator may use."""
    asked: list[str] = []

    async def get(url: str, **_: object) -> dict[str, object]:
        asked.append(url)
        return {"items": [], "metadata": {"resourceVersion": "1"}}

    monkeypatch.setattr(api, "get", get)
    streams = references.Resource("penstock.dev", "v1alpha1", "continuousstreams")
    settings = handlers._settings()
    chunks = fetching.fetch_objs(
        settings=settings, resource=streams, namespace=None, logger=logging.getLogger()
    )
    assert [chunk async for chunk in chunks]
    assert [parse_qs(urlsplit(url).query)["limit"] for url in asked] == [["500"]]


def test_a_watched_namespace_that_is_gone_ends_no_operator() -> None:
    """kopf gives up after the last of its delays, and would end the work for all namespaces."""
    delays = handlers._settings().networking.error_backoffs
    assert isinstance(delays, Iterable)
    assert not isinstance(delays, Sized)
    for _ in range(2):  # each request begins with the first
        first = list(islice(delays, 50))
        assert first[0] == 1
        assert max(first) == first[-1] == 20
