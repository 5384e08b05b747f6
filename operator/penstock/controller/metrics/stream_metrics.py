"""The metrics of each stream, built from its status at each scrape: a deleted one leaves none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.api.v1alpha1.status import Restarts, StreamStatus
from penstock.cluster.kinds import Key
from penstock.contract.metric_catalogue import MetricDescription
from penstock.controller.metrics import metric_descriptions as described


@dataclass(frozen=True, slots=True)
class Shown:
    status: str
    """As JSON: as an object, it would need ten times the memory."""
    commit_interval: float | None
    """Seconds between commits by the spec's trigger; None if it cannot be read."""


class StreamMetrics(Collector):
    """Shows what the operator knows of the streams. Prometheus asks in a thread of its own."""

    def __init__(self) -> None:
        self.shown: dict[Key, Shown] = {}
        self.failures: Callable[[], Mapping[Key, int]] = dict
        """Failed reconciles in a row, of the streams that have any."""

    def collect(self) -> Iterator[Metric]:
        """All families, also those without a series."""
        shown = sorted(self.shown.copy().items(), key=lambda item: item[0])
        parse = StreamStatus.model_validate_json
        statuses = [(key, parse(each.status)) for key, each in shown]
        yield _states(statuses)
        yield _conditions(statuses)
        yield _info(statuses)
        yield _numbers(described.COMMIT_INTERVAL, [(k, each.commit_interval) for k, each in shown])
        yield _numbers(described.LAST_COMMIT, [(k, _committed_at(s)) for k, s in statuses])
        yield _restarts(statuses)
        yield _last_failures(statuses)
        yield _last_repairs(statuses)
        yield _cores(statuses)
        yield _numbers(described.PARTITIONS, [(k, s.partitions) for k, s in statuses])
        yield _numbers(described.EXECUTORS, [(k, s.executors) for k, s in statuses])
        yield _numbers(described.EPOCH, [(k, s.epoch) for k, s in statuses])
        yield _numbers(described.LAG, [(k, s.lag) for k, s in statuses])
        yield _numbers(described.RECONCILE_FAILURES, sorted(self.failures().items()))


_Statuses = list[tuple[Key, StreamStatus]]


def _committed_at(status: StreamStatus) -> float | None:
    time = status.last_commit_time
    return None if time is None else time.timestamp()


def _numbers(metric: MetricDescription, values: list[tuple[Key, float | int | None]]) -> Metric:
    """A gauge with a series for each stream that has the number."""
    gauge = metric.gauge_family()
    for key, value in values:
        if value is not None:
            _add(gauge, key, value=value)
    return gauge


def _states(statuses: _Statuses) -> Metric:
    gauge = described.STATE.gauge_family()
    for key, status in statuses:
        if status.state is not None:
            _add(gauge, key, str(status.state))
    return gauge


def _conditions(statuses: _Statuses) -> Metric:
    gauge = described.CONDITION.gauge_family()
    for key, status in statuses:
        for each in status.conditions:
            _add(gauge, key, each.type, each.status, each.reason)
    return gauge


def _info(statuses: _Statuses) -> Metric:
    gauge = described.INFO.gauge_family()
    for key, status in statuses:
        image = status.effective.image if status.effective else None
        _add(gauge, key, status.mode or "", image or "")
    return gauge


def _restarts(statuses: _Statuses) -> Metric:
    counter = described.RESTARTS.counter_family()
    for key, status in statuses:
        restarts = status.restarts or Restarts()
        for level in ("query", "process", "pod"):
            counter.add_metric([key.namespace, key.name, level], getattr(restarts, level))
    return counter


def _last_failures(statuses: _Statuses) -> Metric:
    gauge = described.LAST_FAILURE.gauge_family()
    for key, status in statuses:
        if (last := status.last_failure) is not None:
            _add(gauge, key, last.reason, value=last.time.timestamp())
    return gauge


def _last_repairs(statuses: _Statuses) -> Metric:
    gauge = described.LAST_REPAIR.gauge_family()
    for key, status in statuses:
        if (last := status.last_repair) is not None:
            _add(gauge, key, last.cause, value=last.time.timestamp())
    return gauge


def _cores(statuses: _Statuses) -> Metric:
    gauge = described.CORES.gauge_family()
    for key, status in statuses:
        if status.cores is not None:
            _add(gauge, key, "desired", value=status.cores.desired)
            _add(gauge, key, "registered", value=status.cores.registered)
    return gauge


def _add(gauge: GaugeMetricFamily, key: Key, *labels: str, value: float = 1) -> None:
    gauge.add_metric([key.namespace, key.name, *labels], value)
