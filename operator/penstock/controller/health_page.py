"""The health page of the operator: whether its event loop runs, and which watches are silent.

It is served before anything else starts, so that no probe ends an operator that waits for the
CustomResourceDefinition or for the API server. A silent watch ends none either: it is tried again
all the time, and a restart gives back no right that is missing. The page and a metric say it.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

PATH = "/healthz"
# The API server sends a bookmark each minute, and a watch that was silent for 75 s begins anew.
SILENT_SECONDS = 180.0


@asynccontextmanager
async def health_page(
    port: int | None, watch_ages: Callable[[], Mapping[str, float]] = dict
) -> AsyncIterator[None]:
    """Serves the page until the block ends; nothing without a port.

    `watch_ages` are the seconds since each watch was heard, by the plural name of its kind.
    """

    async def healthy(_: web.Request) -> web.Response:
        silent = {kind: round(age) for kind, age in watch_ages().items() if age > SILENT_SECONDS}
        return web.json_response({"healthy": True, "silentWatches": silent})

    if port is None:
        yield
        return
    app = web.Application()
    app.router.add_get(PATH, healthy)
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
