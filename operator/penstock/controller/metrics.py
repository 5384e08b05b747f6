"""The operator's Prometheus metrics, in their own registry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.api.v1alpha1.status import Restarts, StreamState, StreamStatus
from penstock.cluster.objects import Key

_STREAM = ["namespace", "name"]


@dataclass
class ReconcileResult:
    """The result of one reconcile."""

    changed: bool = False


class Metrics:
    """Metrics of the operator itself, and of each existing stream."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reconciles = Counter(
            "penstock_operator_reconcile",
            "Reconciles by result: changed, unchanged or error.",
            ["result"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "penstock_operator_reconcile_duration_seconds",
            "Duration of one reconcile.",
            registry=self.registry,
        )
        self._streams = _Streams()
        self.registry.register(self._streams)

    @contextmanager
    def reconciling(self) -> Iterator[ReconcileResult]:
        """Measures one reconcile."""
        result, started = ReconcileResult(), time.perf_counter()
        outcome = "error"
        try:
            yield result
            outcome = "changed" if result.changed else "unchanged"
        finally:
            self._reconciles.labels(outcome).inc()
            self._seconds.observe(time.perf_counter() - started)

    def show(self, key: Key, status: StreamStatus) -> None:
        """Exports the metrics of a stream from its status."""
        self._streams.shown[key] = status

    def forget(self, key: Key) -> None:
        """Stops exporting the metrics of a stream."""
        self._streams.shown.pop(key, None)

    def forget_all(self) -> None:
        """Stops exporting the metrics of all streams."""
        self._streams.shown.clear()


class _Streams(Collector):
    """Builds the streams' metrics at each scrape, so a deleted stream leaves none."""

    def __init__(self) -> None:
        self.shown: dict[Key, StreamStatus] = {}

    def collect(self) -> Iterator[Metric]:
        shown = sorted(self.shown.items())
        yield _states(shown)
        yield _restarts(shown)
        for field, text in (
            ("partitions", "Partitions of the source."),
            ("executors", "Executors registered with the driver."),
            ("epoch", "The last committed epoch, from the stream's status."),
            (
                "lag",
                "Records between committed and newest offsets, from the stream's status.",
            ),
        ):
            gauge = GaugeMetricFamily(f"penstock_stream_{field}", text, labels=_STREAM)
            for key, status in shown:
                value = getattr(status, field)
                if value is not None:
                    gauge.add_metric([key.namespace, key.name], value)
            yield gauge


def _states(shown: list[tuple[Key, StreamStatus]]) -> Metric:
    gauge = GaugeMetricFamily(
        "penstock_stream_state",
        "1 for the current state of the stream.",
        labels=[*_STREAM, "state"],
    )
    for key, status in shown:
        for state in StreamState:
            gauge.add_metric([key.namespace, key.name, state], float(status.state == state))
    return gauge


def _restarts(shown: list[tuple[Key, StreamStatus]]) -> Metric:
    counter = CounterMetricFamily(
        "penstock_stream_restarts",
        "Restarts by the level of the recovery ladder that caught the failure.",
        labels=[*_STREAM, "level"],
    )
    for key, status in shown:
        restarts = status.restarts or Restarts()
        for level in ("query", "process", "pod"):
            counter.add_metric([key.namespace, key.name, level], getattr(restarts, level))
    return counter
