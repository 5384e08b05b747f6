"""Serves /livez, /readyz and /metrics over HTTP, on one port or on two."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from penstock.driver.reporting.metrics import Metrics


@dataclass
class Health:
    """The state behind the probes; written by the loop, read by the server."""

    last_iteration_at: float = field(default_factory=time.monotonic)
    """When the loop's last iteration or step began, on the monotonic clock."""
    iteration_timeout: float = 60.0
    """Seconds that one iteration may take: more while Spark starts."""
    step: str = ""
    """The step that runs, and what it waits for."""
    ready: bool = False
    jvm_answers: bool = True
    """Whether the JVM answered when it was last asked; written by the hang guard."""
    probed_at: float = field(default_factory=time.monotonic)
    """When it was last asked for, on the monotonic clock; at first the start of the process."""

    def is_ready(self) -> bool:
        """Whether the query runs, and the driver's JVM with it."""
        return self.ready and self.jvm_answers and self.is_alive()

    def is_alive(self) -> bool:
        """Whether the loop is running, not blocked."""
        return time.monotonic() - self.last_iteration_at <= self.iteration_timeout


class _Server(ThreadingHTTPServer):
    """Listens on IPv4 and IPv6 unless it is given an address of one of them."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        host = address[0]
        if ":" in host or (not host and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Binds; an IPv6 socket also takes IPv4."""
        if self.address_family == socket.AF_INET6 and socket.has_dualstack_ipv6():
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


# A page by its path: status, content type and body.
Pages = Mapping[str, Callable[[], tuple[int, str, bytes]]]


def probe_pages(health: Health) -> Pages:
    """What the kubelet asks for."""

    def probe(good: Callable[[], bool]) -> Callable[[], tuple[int, str, bytes]]:
        def answer() -> tuple[int, str, bytes]:
            health.probed_at = time.monotonic()
            return _verdict(good())

        return answer

    return {"/livez": probe(health.is_alive), "/readyz": probe(health.is_ready)}


def metrics_page(metrics: Metrics) -> Pages:
    """What Prometheus asks for."""
    return {"/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest(metrics.registry))}


def serve(port: int, pages: Pages, address: str = "") -> ThreadingHTTPServer:
    """Starts the server in a thread, on one address or on all; port 0 takes a free port."""

    class Handler(BaseHTTPRequestHandler):
        # Seconds that a client may take for its request: it holds a thread meanwhile.
        timeout = 10

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, kind, body = page() if page else (404, "text/plain", b"not found\n")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: probes come every few seconds."""

    server = _Server((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server


def _verdict(good: bool) -> tuple[int, str, bytes]:
    return (200, "text/plain", b"ok\n") if good else (503, "text/plain", b"no\n")
