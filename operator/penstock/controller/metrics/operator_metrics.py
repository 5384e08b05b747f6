"""The operator's registry, and what counts into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector

from penstock import __version__
from penstock.api.v1alpha1.status import StreamStatus
from penstock.cluster.kinds import Key
from penstock.controller.kubernetes.api_client import ApiCall
from penstock.controller.metrics import metric_descriptions as described
from penstock.controller.metrics.container_memory import ContainerMemory
from penstock.controller.metrics.stream_metrics import Shown, StreamMetrics


@dataclass
class ReconcileResult:
    changed: bool = False


class MeasuredQueue(Protocol):
    """What is shown of the work queue. Prometheus asks in a thread of its own."""

    @property
    def depth(self) -> int:
        """Streams that are due, and whose reconcile has not ended."""

    @property
    def age(self) -> float:
        """For how many seconds the first of them has been due; 0 if there is none."""

    @property
    def failures(self) -> Mapping[Key, int]:
        """Failed reconciles in a row, of the streams that have any."""


class MeasuredImages(Protocol):
    """What is shown of the rollout of a default image. Prometheus asks in a thread of its own."""

    def count_waiting(self) -> int:
        """How many streams have yet to get it."""

    def failures(self) -> tuple[Sequence[Key], bool]:
        """The streams with which it did not run, and whether no other one gets it for that."""


class OperatorMetrics:
    """Metrics of the operator itself, and of each existing stream."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._streams = StreamMetrics()
        self._waits = False
        self.registry.register(self._streams)
        self.registry.register(ContainerMemory())
        ProcessCollector(registry=self.registry)
        described.BUILD_INFO.gauge(self.registry).labels(__version__).set(1)
        self._leader = described.LEADER.gauge(self.registry)
        self._reconciles = described.RECONCILES.counter(self.registry)
        self._seconds = described.RECONCILE_DURATION.histogram(self.registry)
        self._depth = described.QUEUE_DEPTH.gauge(self.registry)
        self._age = described.QUEUE_AGE.gauge(self.registry)
        self._image_waiting = described.IMAGE_WAITING.gauge(self.registry)
        self._image_stopped = described.IMAGE_STOPPED.gauge(self.registry)
        self._watch_age = described.WATCH_AGE.gauge(self.registry)
        self._requests = described.API_REQUESTS.counter(self.registry)
        self._request_seconds = described.API_DURATION.histogram(self.registry)

    def show_watches(self, ages: Callable[[], Mapping[str, float]]) -> None:
        """Shows how old each watch is, by the plural name of its kind, in seconds."""

        def age_of(resource: str) -> float:
            return ages()[resource]

        for resource in ages():
            self._watch_age.labels(resource).set_function(partial(age_of, resource))

    def show_images(self, images: MeasuredImages) -> None:
        """Shows how far the default image of this process is, while it leads."""
        self._image_waiting.set_function(lambda: 0 if self._waits else images.count_waiting())
        self._image_stopped.set_function(lambda: 0 if self._waits else images.failures()[1])
        self._streams.image_failures = lambda: () if self._waits else images.failures()[0]

    def take_over(self, queue: MeasuredQueue) -> None:
        """Shows this process as the one that reconciles, and its work queue."""
        self._waits = False
        self._depth.set_function(lambda: queue.depth)
        self._age.set_function(lambda: queue.age)
        self._streams.failures = lambda: queue.failures
        self._leader.set(1)

    def step_back(self) -> None:
        """Shows this process as one that waits: the next leader shows the streams."""
        self._waits = True
        self._leader.set(0)
        self._streams.shown.clear()
        self._streams.failures = dict

    @contextmanager
    def reconciling(self) -> Iterator[ReconcileResult]:
        result, started = ReconcileResult(), time.perf_counter()
        outcome = "error"
        try:
            yield result
            outcome = "changed" if result.changed else "unchanged"
        finally:
            self._reconciles.labels(outcome).inc()
            self._seconds.observe(time.perf_counter() - started)

    def count_request(self, call: ApiCall) -> None:
        code = str(call.code) if call.code else "none"
        self._requests.labels(call.verb, call.resource, code).inc()
        self._request_seconds.labels(call.verb, call.resource).observe(call.seconds)

    def show(self, key: Key, status: StreamStatus, commit_interval: float | None = None) -> None:
        """Exports the metrics of a stream: its status, and the interval of its trigger.

        Not if the last term ended while the stream was reconciled.
        """
        if not self._waits:
            self._streams.shown[key] = Shown(
                status.model_dump_json(by_alias=True, exclude_none=True), commit_interval
            )

    def forget(self, key: Key) -> None:
        self._streams.shown.pop(key, None)
