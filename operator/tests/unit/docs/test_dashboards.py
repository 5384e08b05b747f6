"""Each panel of a dashboard is complete, and asks for series and labels that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from penstock.api.v1alpha1.status import StreamState
from scripts.codegen.dashboards import DASHBOARDS
from scripts.codegen.dashboards.grafana import Dashboard, Panel
from scripts.codegen.dashboards.shared import RUNBOOK, STATE_COLORS
from testkit.operations.exported_series import unknown
from testkit.paths import CHECKOUT

PANELS = [
    pytest.param(panel, id=f"{dashboard.name}: {panel.title}")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
]
# Those of Grafana itself.
BUILT_IN = {"__rate_interval", "__range", "__url_time_range", "__all"}
_VARIABLE = re.compile(r"\$\{?(\w+)(?![\w.])")

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)


def _content(dashboard: Dashboard) -> dict[str, Any]:
    """As the chart has it."""
    path = CHECKOUT / "charts/penstock/files/dashboards" / f"{dashboard.name}.json"
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_asks_only_for_series_and_labels_that_exist(panel: Panel) -> None:
    """A misspelt one would look like a stream without faults."""
    for expression in panel.queries.values():
        assert unknown(expression) == []


@pytest.mark.parametrize("panel", PANELS)
def test_a_legend_names_only_labels_that_the_query_keeps(panel: Panel) -> None:
    """Grafana shows nothing in the place of another one."""
    for legend, expression in panel.queries.items():
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        kept = {label for labels in grouped for label in labels.split(", ")}
        if "namespace_name:" in expression:
            kept |= {"namespace", "name"}
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= kept


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_is_good(panel: Panel) -> None:
    """Only the mode and the image are neither good nor bad."""
    assert "Good: " in panel.description or panel.title == "What runs?"


@each_dashboard
def test_every_variable_is_defined_and_used(dashboard: Dashboard) -> None:
    content = _content(dashboard)
    defined = {variable["name"] for variable in content["templating"]["list"]}
    text = json.dumps([content["panels"], content["templating"]])
    assert set(_VARIABLE.findall(text)) - BUILT_IN == defined


@each_dashboard
def test_a_variable_asks_for_a_series_and_a_label_that_exist(dashboard: Dashboard) -> None:
    for variable in dashboard.variables:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable.query)
        assert found is not None
        assert unknown(f"sum by ({found[2]}) ({found[1]})") == []


@each_dashboard
def test_no_two_panels_share_an_id_or_a_place(dashboard: Dashboard) -> None:
    panels = _content(dashboard)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (column, line)
        for place in (panel["gridPos"] for panel in panels)
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(places)) == len(places)
    assert {column for column, _ in places} == set(range(24))


@each_dashboard
def test_a_link_opens_a_dashboard_that_exists_with_its_variables(dashboard: Dashboard) -> None:
    by_uid = {f"penstock-{dashboard.name}": dashboard for dashboard in DASHBOARDS}
    for panel in dashboard.panels:
        if panel.link is not None and panel.link != RUNBOOK:
            found = re.match(r"/d/([\w-]+)\?", panel.link[1])
            assert found is not None
            wanted = {variable.name for variable in by_uid[found[1]].variables}
            assert set(re.findall(r"&var-(\w+)=", panel.link[1])) == wanted


def test_the_dashboards_have_names_and_uids_of_their_own() -> None:
    """Grafana keeps one of those that share a uid."""
    contents = [_content(dashboard) for dashboard in DASHBOARDS]
    for name in ("uid", "title"):
        assert len({content[name] for content in contents}) == len(DASHBOARDS)


def test_every_state_has_a_colour() -> None:
    assert set(STATE_COLORS) == set(StreamState)


def test_a_runbook_is_where_the_chart_looks_for_its_address() -> None:
    """It replaces the default of `prometheusRule.runbookUrl`."""
    values = yaml.safe_load((CHECKOUT / "charts/penstock/values.yaml").read_text())
    assert RUNBOOK[1].startswith(values["prometheusRule"]["runbookUrl"] + "/")
    assert (
        values["prometheusRule"]["runbookUrl"]
        in (CHECKOUT / "charts/penstock/templates/dashboards.yaml").read_text()
    )
