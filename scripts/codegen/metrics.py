"""Writes the lists of docs/metrics.md: the metrics, from their catalogues, and the alerts."""

from __future__ import annotations

import re

from penstock.contract.metric_catalogue import Catalogue
from penstock.controller.metrics.metric_descriptions import OPERATOR, STREAM
from penstock.driver.reporting.metric_descriptions import DRIVER
from scripts.codegen import marked
from testkit.operations.alert_rules import Rule, alerts_by_series

CATALOGUES = {"driver": DRIVER, "stream": STREAM, "operator": OPERATOR}
ALERTS = "alerts"


def with_lists(document: str, rules: list[Rule]) -> str:
    made = {name: _metrics(catalogue, rules) for name, catalogue in CATALOGUES.items()}
    return marked.filled(document, made | {ALERTS: _alerts(rules)})


def _metrics(catalogue: Catalogue, rules: list[Rule]) -> str:
    """An entry for each metric: `- `name`: kind, unit; labels`, then its meaning and alerts."""
    uses = alerts_by_series(rules)
    entries = []
    for metric in catalogue.metrics:
        kind = ", ".join(filter(None, (metric.kind, metric.unit)))
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        alerts = sorted({alert for series in metric.series for alert in uses.get(series, ())})
        links = ", ".join(f"[{_short(alert)}](runbooks/{alert}.md)" for alert in alerts)
        meaning = metric.meaning[:1].upper() + metric.meaning[1:]
        entry = f"- `{metric.name}`: {kind}{f'; by {labels}' if labels else ''}<br>\n  {meaning}."
        entries.append(entry + (f" Alerts: {links}." if links else ""))
    return "\n".join(entries) + "\n"


def _alerts(rules: list[Rule]) -> str:
    severities: dict[str, list[str]] = {}
    summaries: dict[str, str] = {}
    for rule in rules:
        if rule.is_alert:
            severities.setdefault(rule.name, []).append(rule.severity)
            summaries.setdefault(rule.name, rule.annotations["summary"])
    rows = ["| alert | severity | says |", "|---|---|---|"]
    for name, of_rules in severities.items():
        says = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", summaries[name])
        severity = ", ".join(sorted(set(of_rules)))
        rows.append(f"| [`{name}`](runbooks/{name}.md) | {severity} | {says} |")
    return "\n".join(rows) + "\n"


def _short(alert: str) -> str:
    return alert.removeprefix("Penstock")
