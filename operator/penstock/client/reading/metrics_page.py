"""Reads the driver's page of metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from penstock.client.cluster_facts import DriverMetrics

_PREFIX = "penstock_driver_"
_LATENCY = "record_commit_latency_seconds"


def parse_metrics(page: str) -> DriverMetrics | None:
    """The numbers that commands show; None if it is no page of metrics."""
    try:
        samples = dict(_samples(page))
    except ValueError:
        return None
    committed = samples.get("last_epoch_commit_timestamp_seconds")
    lag = samples.get("unhandled_records")
    count = samples.get(f"{_LATENCY}_count")
    return DriverMetrics(
        last_commit=datetime.fromtimestamp(committed, UTC) if committed else None,
        lag=None if lag is None else int(lag),
        records=samples.get("committed_records_total"),
        latency=samples[f"{_LATENCY}_sum"] / count if count else None,
    )


def _samples(page: str) -> Iterable[tuple[str, float]]:
    """The samples of the whole stream: those without labels."""
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if not sample.labels and sample.name.startswith(_PREFIX):
                yield sample.name[len(_PREFIX) :], sample.value
