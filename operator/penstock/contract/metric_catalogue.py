"""Describes metrics: each one's name, type, unit, labels and meaning, once.

The operator and the driver have a catalogue each. What they export is made from it, and so are the
tables of docs/metrics.md; tests compare the alerts' rules with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

_COUNTER_SUFFIX = "_total"
_HISTOGRAM_SUFFIXES = ("_bucket", "_count", "_sum")


@dataclass(frozen=True)
class MetricDescription:
    name: str
    """As PromQL spells it: a counter's ends in `_total`, a histogram's has no suffix."""
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    """For people, in Markdown; without its backticks also the exposition's HELP."""
    labels: tuple[str, ...] = ()
    unit: str = ""
    """What the number counts: seconds, bytes, records. Empty if the name says it."""
    buckets: tuple[float, ...] = ()
    """A histogram's upper bounds, in its unit."""

    @property
    def series(self) -> frozenset[str]:
        """The names of its series, which a query uses."""
        if self.kind == "histogram":
            return frozenset(self.name + suffix for suffix in _HISTOGRAM_SUFFIXES)
        return frozenset({self.name})

    @property
    def series_labels(self) -> frozenset[str]:
        return frozenset(self.labels) | ({"le"} if self.kind == "histogram" else set())

    def counter(self, registry: CollectorRegistry) -> Counter:
        assert self.kind == "counter"
        return Counter(self._bare, self._help, self.labels, registry=registry)

    def gauge(self, registry: CollectorRegistry) -> Gauge:
        assert self.kind == "gauge"
        return Gauge(self.name, self._help, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> Histogram:
        assert self.kind == "histogram"
        return Histogram(
            self.name, self._help, self.labels, registry=registry, buckets=self.buckets
        )

    def counter_family(self) -> CounterMetricFamily:
        """For a collector that builds its series at each scrape."""
        assert self.kind == "counter"
        return CounterMetricFamily(self._bare, self._help, labels=self.labels)

    def gauge_family(self) -> GaugeMetricFamily:
        """For a collector that builds its series at each scrape."""
        assert self.kind == "gauge"
        return GaugeMetricFamily(self.name, self._help, labels=self.labels)

    @property
    def _bare(self) -> str:
        return self.name.removesuffix(_COUNTER_SUFFIX)

    @property
    def _help(self) -> str:
        return self.meaning.replace("`", "")


class Catalogue:
    """Descriptions of metrics whose names begin with the same prefix, in the documents' order."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.metrics: list[MetricDescription] = []

    def counter(self, name: str, meaning: str, *labels: str, unit: str = "") -> MetricDescription:
        """Describes a counter; the name ends in `_total`."""
        assert name.endswith(_COUNTER_SUFFIX)
        return self._add(MetricDescription(self._prefix + name, "counter", meaning, labels, unit))

    def gauge(self, name: str, meaning: str, *labels: str, unit: str = "") -> MetricDescription:
        return self._add(MetricDescription(self._prefix + name, "gauge", meaning, labels, unit))

    def histogram(
        self, name: str, meaning: str, *labels: str, unit: str, buckets: Sequence[float]
    ) -> MetricDescription:
        """Describes a histogram with these upper bounds."""
        return self._add(
            MetricDescription(
                self._prefix + name, "histogram", meaning, labels, unit, tuple(buckets)
            )
        )

    def _add(self, metric: MetricDescription) -> MetricDescription:
        self.metrics.append(metric)
        return metric
