"""Reads charts/penstock/files/alerts.yaml, the one source of the alerts."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from testkit.paths import CHECKOUT

ALERTS = CHECKOUT / "charts" / "penstock" / "files" / "alerts.yaml"

_TEXT = re.compile(r'"[^"]*"')
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")


@dataclass(frozen=True)
class Rule:
    """One rule of the file."""

    name: str
    """Of the alert, or of the series that it records."""
    is_alert: bool
    expression: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def severity(self) -> str:
        """warning, or critical: someone should get up."""
        return self.labels.get("severity", "")


def rules(text: str) -> list[Rule]:
    """The rules of a rules file, in order."""
    return [
        Rule(
            each.get("alert") or each["record"],
            "alert" in each,
            each["expr"],
            each.get("labels", {}),
            each.get("annotations", {}),
        )
        for group in yaml.safe_load(text)["groups"]
        for each in group["rules"]
    ]


def words(expression: str) -> frozenset[str]:
    """Every name in an expression: of metrics, labels, functions and operators."""
    return frozenset(_METRIC.findall(_TEXT.sub("", expression)))


def matchers(expression: str) -> list[tuple[str, frozenset[str]]]:
    """Each selector's metric and the labels that it names."""
    bare = _TEXT.sub('""', expression)
    return [(name, frozenset(_MATCHER.findall(inner))) for name, inner in _SELECTOR.findall(bare)]


def alerts_by_series(found: list[Rule]) -> dict[str, list[str]]:
    """The alerts that use each name, directly or through a recorded series."""
    recorded = {rule.name: words(rule.expression) for rule in found if not rule.is_alert}
    uses: dict[str, list[str]] = {}
    for rule in found:
        if not rule.is_alert:
            continue
        names = words(rule.expression)
        for name in names | {n for each in names for n in recorded.get(each, ())}:
            alerts = uses.setdefault(name, [])
            if rule.name not in alerts:
                alerts.append(rule.name)
    return uses
