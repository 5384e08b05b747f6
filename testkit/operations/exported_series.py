"""Says which series and labels of a PromQL expression nobody exports."""

from __future__ import annotations

import re

from penstock.controller.metrics.metric_descriptions import OPERATOR, STREAM
from penstock.driver.reporting.metric_descriptions import DRIVER
from testkit.operations.alert_rules import ALERTS, matchers, rules, words

# What Prometheus or the monitors add to each series (docs/metrics.md, Scraping).
TARGET_LABELS = frozenset({"namespace", "name", "pod", "job", "instance"})
# What others export, and the labels that our expressions may use of it.
OTHERS = {
    f"kubelet_volume_stats_{name}": frozenset({"namespace", "persistentvolumeclaim"})
    for name in ("available_bytes", "capacity_bytes", "inodes_free", "inodes")
} | {
    "up": frozenset({"namespace", "pod", "job"}),
    # Of prometheus_client, by the operator.
    "process_start_time_seconds": frozenset({"namespace", "pod", "job"}),
    "process_cpu_seconds_total": frozenset({"namespace", "pod", "job"}),
    "process_resident_memory_bytes": frozenset({"namespace", "pod", "job"}),
    "ALERTS": frozenset({"alertname", "alertstate", "severity", "namespace", "name"}),
}
RECORDED = {
    rule.name: frozenset({"namespace", "name"})
    for rule in rules(ALERTS.read_text())
    if not rule.is_alert
}
LABELS: dict[str, frozenset[str]] = {
    **{
        series: metric.series_labels | TARGET_LABELS
        for catalogue in (DRIVER, STREAM, OPERATOR)
        for metric in catalogue.metrics
        for series in metric.series
    },
    **OTHERS,
    **RECORDED,
}
"""The labels of each series."""

_GROUPING = re.compile(r"\bby\s*\(([^)]*)\)")


def unknown(expression: str) -> list[str]:
    """The series and labels of an expression that nobody exports."""
    names = words(expression)
    found = [
        name for name in names if name.startswith(("penstock_", "kubelet_")) and name not in LABELS
    ]
    for name, labels in matchers(expression):
        found += [f"{name}{{{label}}}" for label in labels - LABELS.get(name, frozenset())]
    grouped = {label for labels in _GROUPING.findall(expression) for label in words(labels)}
    labels_of_all = frozenset().union(*(LABELS[name] for name in names & LABELS.keys()))
    return found + [f"by ({label})" for label in sorted(grouped - labels_of_all)]
