"""Writes a dashboard as Grafana's JSON, from the few things in which our panels differ.

The fields are those of schema version 39 (Grafana 10.3 and newer; newer ones migrate it):
https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SOURCES = {
    "type": "datasource",
    "name": "datasource",
    "label": "Prometheus",
    "query": "prometheus",
    "refresh": 1,
}


@dataclass(frozen=True)
class Panel:
    """Answers one question. Only the kinds over time ask for more than the newest values."""

    title: str
    description: str
    """What is good, and what to do otherwise."""
    queries: Mapping[str, str]
    """PromQL, by what the legend calls its series. `<chosen>` stands for the dashboard's choice."""
    unit: str = "short"
    """A unit of Grafana: s, percentunit (0 to 1), bytes, cps (a second), dateTimeFromNow, short."""
    kind: Literal["timeseries", "state-timeline", "stat", "bargauge", "table"] = "timeseries"
    alarm: float | None = None
    """From this value on the colour is red."""
    colors: Mapping[str, str] = field(default_factory=dict)
    """By the legend of a series; the others have Grafana's colours."""
    hidden: tuple[str, ...] = ("Time", "Value")
    """Columns that a table does not show."""
    link: tuple[str, str] | None = None
    """What a click on a value opens: title and URL."""

    def about(self, chosen: str) -> Panel:
        return replace(
            self,
            queries={
                legend: expression.replace("<chosen>", chosen)
                for legend, expression in self.queries.items()
            },
        )


@dataclass(frozen=True)
class Row:
    """Panels side by side, with a heading."""

    title: str
    panels: tuple[Panel, ...]
    height: int = 8


@dataclass(frozen=True)
class Variable:
    """A variable of a dashboard: the values of a label."""

    name: str
    label: str
    query: str
    several: bool = False
    """Whether any number can be chosen, and all."""


@dataclass(frozen=True)
class Dashboard:
    """One dashboard. Its uid, which links name, is `penstock-NAME`."""

    name: str
    title: str
    description: str
    chosen: str
    """The labels of the series that it is about, by its variables."""
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self._rows for panel in row.panels)

    @property
    def _rows(self) -> tuple[Row, ...]:
        """Their queries are about what is chosen."""
        return tuple(
            replace(row, panels=tuple(panel.about(self.chosen) for panel in row.panels))
            for row in self.rows
        )

    def to_json(self) -> str:
        content = {
            "uid": f"penstock-{self.name}",
            "title": self.title,
            "description": self.description,
            "tags": ["penstock"],
            "schemaVersion": 39,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "graphTooltip": 1,  # one crosshair for all panels
            "links": [
                {"type": "dashboards", "title": "Penstock", "tags": ["penstock"], "keepTime": True}
            ],
            "templating": {"list": [_SOURCES, *map(_variable, self.variables)]},
            "panels": list(_laid_out(self._rows)),
        }
        return json.dumps(content, indent=2) + "\n"


def _variable(variable: Variable) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": _SOURCE,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,  # when the time range changes
        "sort": 1,
    }
    if variable.several:
        everything = {"text": "All", "value": "$__all"}
        made |= {"multi": True, "includeAll": True, "allValue": ".*", "current": everything}
    return made


def _laid_out(rows: tuple[Row, ...]) -> Iterator[dict[str, Any]]:
    """Headings and panels from top to bottom; the panels of a row share its width."""
    top = number = 0
    for row in rows:
        number += 1
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": place, "panels": []}
        width = _COLUMNS // len(row.panels)
        for column, panel in enumerate(row.panels):
            number += 1
            place = {"x": column * width, "y": top + 1, "w": width, "h": row.height}
            yield {"id": number, "gridPos": place} | _panel(panel)
        top += 1 + row.height


def _panel(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _OPTIONS[panel.kind],
        "targets": [
            _target(panel, letter, legend, expression)
            for letter, (legend, expression) in zip(
                string.ascii_uppercase, panel.queries.items(), strict=False
            )
        ],
    }
    if panel.kind == "table":
        hidden = dict.fromkeys(panel.hidden, True)
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
    return made


_LATEST = {"calcs": ["lastNotNull"]}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "state-timeline": {"showValue": "never", "legend": {"showLegend": False}},
    "stat": {"reduceOptions": _LATEST, "textMode": "value_and_name", "colorMode": "value"},
    "bargauge": {"reduceOptions": _LATEST, "orientation": "horizontal", "displayMode": "basic"},
    "table": {"showHeader": True},
}


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.alarm is not None:
        steps.append({"color": "red", "value": panel.alarm})
    made: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind == "timeseries":
        style = "off" if panel.alarm is None else "line"
        made |= {"min": 0, "color": {"mode": "palette-classic"}}
        made["custom"] = {"fillOpacity": 8, "thresholdsStyle": {"mode": style}}
    if panel.kind == "bargauge":
        made["min"] = 0
    if panel.link is not None:
        title, url = panel.link
        made["links"] = [{"title": title, "url": url}]
    return made


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for name, color in panel.colors.items()
    ]


def _target(panel: Panel, letter: str, legend: str, expression: str) -> dict[str, Any]:
    over_time = panel.kind in ("timeseries", "state-timeline")
    return {
        "refId": letter,
        "datasource": _SOURCE,
        "expr": expression,
        "legendFormat": legend,
        "range": over_time,
        "instant": not over_time,
        "format": "table" if panel.kind == "table" else "time_series",
    }
