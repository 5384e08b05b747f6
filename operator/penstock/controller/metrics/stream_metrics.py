"""The metrics of each stream, built from its status at each scrape: a deleted one leaves none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.api.v1alpha1.status import Restarts, StreamStatus
from penstock.cluster.kinds import Key
from penstock.contract.metric_catalogue import MetricDescription
from penstock.controller.metrics import metric_descriptions as described

log = logging.getLogger(__name__)

_GAUGES = (
    described.STATE,
    described.CONDITION,
    described.INFO,
    described.COMMIT_INTERVAL,
    described.LAST_COMMIT,
    described.LAST_FAILURE,
    described.LAST_REPAIR,
    described.CORES,
    described.PARTITIONS,
    described.EXECUTORS,
    described.EPOCH,
    described.LAG,
    described.IMAGE_FAILED,
    described.COMPLETION,
    described.RECONCILE_FAILURES,
)

_Sample = tuple[MetricDescription, tuple[str, ...], float]
"""The metric, its labels after those of the stream, and its value."""


@dataclass(frozen=True, slots=True)
class Shown:
    status: str
    """As JSON: as an object, it would need eight times the memory."""
    commit_interval: float | None
    """Seconds between commits by the spec's trigger; None if it cannot be read."""


class StreamMetrics(Collector):
    """Shows what the operator knows of the streams. Prometheus asks in a thread of its own."""

    def __init__(self) -> None:
        self.shown: dict[Key, Shown] = {}
        self.failures: Callable[[], Mapping[Key, int]] = dict
        """Failed reconciles in a row, of the streams that have any."""
        self.image_failures: Callable[[], Iterable[Key]] = tuple
        """The streams with which the default image did not run."""

    def collect(self) -> Iterator[Metric]:
        """All families, also those without a series; no stream can spoil those of the others."""
        families: dict[MetricDescription, CounterMetricFamily | GaugeMetricFamily] = {
            described.RESTARTS: described.RESTARTS.counter_family(),
            **{gauge: gauge.gauge_family() for gauge in _GAUGES},
        }
        for key, shown in sorted(self.shown.copy().items(), key=lambda item: item[0]):
            try:
                samples = list(_samples(shown))
            except (ValueError, OverflowError):
                log.exception("%s: its metrics cannot be shown", key)
                continue
            for metric, labels, value in samples:
                families[metric].add_metric([key.namespace, key.name, *labels], value)
        for key, count in sorted(self.failures().items()):
            families[described.RECONCILE_FAILURES].add_metric([key.namespace, key.name], count)
        for key in self.image_failures():
            families[described.IMAGE_FAILED].add_metric([key.namespace, key.name], 1)
        yield from families.values()


def _samples(shown: Shown) -> Iterator[_Sample]:
    status = StreamStatus.model_validate_json(shown.status)
    if status.state is not None:
        yield described.STATE, (str(status.state),), 1
    for condition in status.conditions:
        yield described.CONDITION, (condition.type, condition.status, condition.reason), 1
    image = status.effective.image if status.effective else None
    yield described.INFO, (status.mode or "", image or ""), 1
    restarts = status.restarts or Restarts()
    for level in ("query", "process", "pod"):
        yield described.RESTARTS, (level,), float(getattr(restarts, level))
    if (failure := status.last_failure) is not None:
        yield described.LAST_FAILURE, (failure.reason,), failure.time.timestamp()
    if (repair := status.last_repair) is not None:
        yield described.LAST_REPAIR, (repair.cause,), repair.time.timestamp()
    if status.cores is not None:
        yield described.CORES, ("desired",), float(status.cores.desired)
        yield described.CORES, ("registered",), float(status.cores.registered)
    committed, completed = status.last_commit_time, status.completion_time
    numbers = {
        described.COMMIT_INTERVAL: shown.commit_interval,
        described.LAST_COMMIT: committed.timestamp() if committed is not None else None,
        described.PARTITIONS: status.partitions,
        described.EXECUTORS: status.executors,
        described.EPOCH: status.epoch,
        described.LAG: status.lag,
        described.COMPLETION: completed.timestamp() if completed is not None else None,
    }
    for metric, number in numbers.items():
        if number is not None:
            yield metric, (), float(number)
