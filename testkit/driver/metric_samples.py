"""Reads the driver's metrics, as Prometheus does."""

from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.driver.reporting.metrics import PREFIX, Metrics


def numbers(metrics: Metrics) -> dict[str, float]:
    """Each sample by its name and labels, without the prefix."""
    text = generate_latest(metrics.registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            name = sample.name.removeprefix(f"{PREFIX}_")
            found[f"{name}{{{labels}}}" if labels else name] = sample.value
    return found
