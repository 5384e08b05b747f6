"""/livez, /readyz and /metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from penstock.stream.status import DriverReport, QueryState


@dataclass
class Health:
    """What the probes ask; written by the loop, read by the server."""

    turned_at: float = field(default_factory=time.monotonic)
    """When the supervisor's loop last turned."""
    may_take: float = 60.0
    """How long one turn may take, in seconds: more while Spark starts."""
    ready: bool = False

    def is_alive(self) -> bool:
        """Whether the loop still turns."""
        return time.monotonic() - self.turned_at <= self.may_take


class Metrics:
    """The driver's numbers, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        prefix = "penstock_stream"
        self._state = Gauge(
            f"{prefix}_state",
            "1 for the state the stream is in.",
            ["state"],
            registry=self.registry,
        )
        self._epoch = Gauge(f"{prefix}_epoch", "Last committed epoch.", registry=self.registry)
        self._commit = Gauge(
            f"{prefix}_last_epoch_commit_timestamp_seconds",
            "When the driver saw the last commit.",
            registry=self.registry,
        )
        self._partitions = Gauge(
            f"{prefix}_source_partitions", "Partitions of the source.", registry=self.registry
        )
        self._cores = Gauge(
            f"{prefix}_executor_cores", "Executors' cores.", ["kind"], registry=self.registry
        )
        self._lag = Gauge(
            f"{prefix}_lag_records",
            "Records between the committed and the newest offsets.",
            registry=self.registry,
        )
        self._restarts = Counter(
            f"{prefix}_restarts", "Restarts.", ["level", "reason"], registry=self.registry
        )
        self._last_epoch: int | None = None

    def restarted(self, reason: str) -> None:
        """The query was started again after a failure."""
        self._restarts.labels("query", reason).inc()

    def show(self, report: DriverReport) -> None:
        """Takes the numbers over from a report."""
        for state in QueryState:
            self._state.labels(state.value).set(state is report.state)
        self._cores.labels("wanted").set(report.cores or 0)
        self._cores.labels("registered").set(report.registered_cores or 0)
        if report.partitions is not None:
            self._partitions.set(report.partitions)
        if report.lag is not None:
            self._lag.set(report.lag)
        if report.epoch is not None and report.epoch != self._last_epoch:
            self._epoch.set(report.epoch)
            if self._last_epoch is not None or report.committed:
                self._commit.set_to_current_time()
            self._last_epoch = report.epoch


def serve(port: int, health: Health, metrics: Metrics) -> ThreadingHTTPServer:
    """Answers from a thread of its own; port 0 takes a free one."""
    pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
        "/livez": lambda: _verdict(health.is_alive()),
        "/readyz": lambda: _verdict(health.ready and health.is_alive()),
        "/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest(metrics.registry)),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, kind, body = page() if page else (404, "text/plain", b"not found\n")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds: not worth a line."""

    server = ThreadingHTTPServer(("", port), Handler)  # probes come from the kubelet, by pod IP
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server


def _verdict(good: bool) -> tuple[int, str, bytes]:
    return (200, "text/plain", b"ok\n") if good else (503, "text/plain", b"no\n")
