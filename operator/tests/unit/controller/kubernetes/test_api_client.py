"""How many requests the operator has at one time."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from penstock.cluster import kinds
from penstock.cluster.rest_api import ApiError
from penstock.controller.kubernetes.api_client import KubernetesApiClient
from testkit.controller import samples


class SlowServer:
    """It answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Queue[str]()
        self.may_answer = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.put_nowait(request.method)
        await self.may_answer.wait()
        return web.json_response({})


async def test_no_more_requests_than_the_bound_and_a_write_only_while_it_leads() -> None:
    """A watch is none of them. A write that waits may come after the term of its operator."""
    slow, leads = SlowServer(), True
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", slow.answer)
    async with TestServer(app) as server:
        configuration = Configuration(host=str(server.make_url("")))
        async with KubernetesApiClient(
            configuration, may_write=lambda: leads, max_concurrent_requests=2
        ) as api:
            watch = anext(api.events(kinds.POD, "", "", "1"), None)
            requests = [watch, *(api.get(kinds.POD, "a", "b") for _ in range(2))]
            answers = asyncio.gather(*requests)
            for _ in requests:
                assert await slow.asked.get() == "GET"
            write = asyncio.create_task(api.apply(samples.stored(), force=True))
            await asyncio.sleep(0.2)
            assert slow.asked.empty()
            leads = False
            slow.may_answer.set()
            with pytest.raises(ApiError, match="NotLeader"):
                await write
            assert await answers == [None, {}, {}]
            assert slow.asked.empty()
