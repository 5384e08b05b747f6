"""The health page of the operator: whether its event loop runs.

It is served before anything else starts, so that no probe ends an operator that waits for the
CustomResourceDefinition or for the API server.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

PATH = "/healthz"


@asynccontextmanager
async def health_page(port: int | None) -> AsyncIterator[None]:
    """Serves the page until the block ends; nothing without a port."""
    if port is None:
        yield
        return
    app = web.Application()
    app.router.add_get(PATH, _healthy)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        # Without a host it listens on all addresses, of IPv4 and of IPv6.
        await web.TCPSite(runner, None, port).start()
        yield
    finally:
        await runner.cleanup()


def any_address() -> str:
    """The address to listen on for connections of IPv6 and IPv4, or of IPv4 alone."""
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - in a pod of its own


async def _healthy(_: web.Request) -> web.Response:
    return web.json_response({"healthy": True})
