"""The alerts in Prometheus' own tools: each fires when it must, and not when it must not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.controller.children.stateful_set import driver_stateful_set
from penstock.driver.reporting.metrics import (
    MAX_EXECUTORS,
    MAX_PARTITIONS,
    MAX_REASONS,
    Metrics,
)
from penstock.driver.spark.executor_metrics import ExecutorMetrics
from testkit.controller import samples
from testkit.operations.alert_rules import ALERTS, rules
from testkit.operations.pod_monitors import scrape_configs
from testkit.operations.runbooks import blocks
from testkit.paths import CHECKOUT
from testkit.tools import tool
from testkit.tools.debian import promtool

CHART = CHECKOUT / "charts" / "penstock"
NAMES = sorted({rule.name for rule in rules(ALERTS.read_text()) if rule.is_alert})


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(promtool()), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_rules_are_a_file_that_prometheus_reads() -> None:
    done = _promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proves(35)
@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_fires_when_it_must_and_not_when_it_must_not(alert: str) -> None:
    """The cases are in rules/NAME.yaml, each under a comment that says what happens in it."""
    cases = Path(__file__).parent / "rules" / f"{alert}.yaml"
    done = _promtool("test", "rules", cases)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_makes_a_prometheusrule_of_the_same_rules(tmp_path: Path) -> None:
    """With the labels and the place of the runbooks from the values."""
    values = (
        "prometheusRule.enabled=true,prometheusRule.labels.release=monitoring,"
        "prometheusRule.alertLabels.team=data,prometheusRule.runbookUrl=https://books.example/"
    )
    (made,) = _rendered("prometheusrule", values)
    assert made["metadata"]["labels"]["release"] == "monitoring"
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(made["spec"]))
    done = _promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
    source, rendered = rules(ALERTS.read_text()), rules(file.read_text())
    assert [(e.name, e.expression) for e in rendered] == [(e.name, e.expression) for e in source]
    for before, after in zip(source, rendered, strict=True):
        if before.is_alert:
            assert after.labels == {**before.labels, "team": "data"}
            books = {"runbook_url": f"https://books.example/{before.name}.md"}
            assert after.annotations == {**before.annotations, **books}


def test_how_long_an_alert_waits_is_a_value_of_the_chart() -> None:
    """By name and severity; the other alerts wait as before. A name that is none is refused."""
    waits = "prometheusRule.enabled=true,prometheusRule.for.PenstockStreamNotReady.warning=7m"
    (made,) = _rendered("prometheusrule", waits)
    file = yaml.safe_load(ALERTS.read_text())
    for before, after in zip(_alerts(file), _alerts(made["spec"]), strict=True):
        name, severity = before["alert"], before["labels"]["severity"]
        is_chosen = (name, severity) == ("PenstockStreamNotReady", "warning")
        assert after.get("for") == ("7m" if is_chosen else before.get("for"))
    with pytest.raises(subprocess.CalledProcessError):
        _helm("prometheusRule.enabled=true,prometheusRule.for.StreamNotReady.warning=7m")


def _alerts(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in spec["groups"] for rule in group["rules"] if "alert" in rule]


def test_without_values_there_is_no_object_of_the_prometheus_operator() -> None:
    """Its kinds are unknown to a cluster without it."""
    assert "monitoring.coreos.com" not in _helm("")


def test_the_pod_monitors_set_the_labels_that_the_alerts_rely_on() -> None:
    """The stream's namespace on the operator's series, and its name on the driver's."""
    operator, drivers = _rendered("podmonitor", "podMonitor.enabled=true,watchNamespaces={shop}")
    (endpoint,) = operator["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["honorLabels"]) == ("metrics", True)
    (job,) = endpoint["relabelings"]
    assert job["targetLabel"] == "job"
    assert job["replacement"].startswith("penstock-operator/")
    (endpoint,) = drivers["spec"]["podMetricsEndpoints"]
    template = driver_stateful_set(samples.desired())["spec"]["template"]
    wanted = drivers["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= template["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in _ports(template)}
    assert ports[endpoint["port"]] == naming.METRICS_PORT
    _, name, job = endpoint["relabelings"]
    pod = naming.driver_pod_name("flags")
    assert (re.fullmatch(name["regex"], pod) or [""])[1] == "flags"
    assert (name["targetLabel"], job["targetLabel"]) == ("name", "job")
    assert not job["replacement"].startswith("penstock-operator")
    assert drivers["spec"]["namespaceSelector"] == {"matchNames": ["shop"]}


def test_what_a_drivers_page_may_hold_is_bounded_as_the_document_says() -> None:
    """By the chart's defaults; its own page at its largest is below them."""
    _, drivers = _rendered("podmonitor", "podMonitor.enabled=true")
    (made,) = scrape_configs([drivers], "targets.json")
    (text,) = blocks((CHECKOUT / "docs" / "metrics.md").read_text(), "")
    documented = yaml.safe_load(text)["scrape_configs"][1]
    limits = {name: value for name, value in documented.items() if name.endswith("_limit")}
    assert len(limits) == 5
    assert limits.items() <= made.items()
    assert made["metric_relabel_configs"] == documented["metric_relabel_configs"]
    assert _samples_of_the_largest_page() < limits["sample_limit"]


def _samples_of_the_largest_page() -> int:
    """Of as many partitions, executors and reasons as are shown."""
    metrics, offsets = Metrics(), {"orders": dict.fromkeys(range(MAX_PARTITIONS), 1)}
    metrics.set_offsets((offsets, offsets))
    metrics.set_executors(
        [ExecutorMetrics(str(number), *[1] * 7) for number in range(MAX_EXECUTORS)]
    )
    for number in range(2 * MAX_REASONS):
        metrics.count_restart(f"Reason{number}")
        for permanent in (False, True):
            metrics.count_failure(f"Reason{number}", permanent=permanent)
    return sum(len(metric.samples) for metric in metrics.registry.collect())


def test_the_queries_of_the_runbooks_are_promql(tmp_path: Path) -> None:
    """Each is read as the expression of a rule in a group of the runbook's name."""
    groups = [
        {
            "name": runbook.stem,
            "rules": [
                {"record": f"query_{number}", "expr": query}
                for number, query in enumerate(blocks(runbook.read_text(), "promql"))
            ],
        }
        for runbook in (CHECKOUT / "docs" / "runbooks").glob("*.md")
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups}))
    done = _promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def _ports(template: Manifest) -> list[dict[str, Any]]:
    (driver,) = template["spec"]["containers"]
    return list(driver["ports"])


def _rendered(template: str, values: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(_helm(values, f"--show-only=templates/{template}.yaml")))


def _helm(values: str, *options: str) -> str:
    command = [str(tool("helm")), "template", "penstock", str(CHART), "--set", values, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
