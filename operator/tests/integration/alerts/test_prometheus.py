"""A real Prometheus scrapes what operator and driver export, and judges the rules over it."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from socketserver import BaseServer
from typing import Any

import pytest
import yaml
from prometheus_client import start_http_server

from penstock.api.v1alpha1.status import Condition, LastFailure, StreamStatus
from penstock.cluster.kinds import Key
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.work_queue import WorkQueue
from penstock.driver.reporting.http_server import metrics_page, serve
from penstock.driver.reporting.metrics import Metrics
from scripts.codegen.dashboards import DASHBOARDS
from scripts.codegen.dashboards.grafana import Dashboard
from testkit.operations.alert_rules import ALERTS
from testkit.operations.prometheus import Prometheus, running_prometheus
from testkit.operations.runbooks import blocks
from testkit.paths import CHECKOUT
from testkit.tools.debian import promtool
from testkit.wait import wait_for

NOW = datetime.now(UTC)
RUNBOOKS = CHECKOUT / "docs" / "runbooks"
LABELS = {"namespace": "shop", "name": "flags"}
# What is chosen in a dashboard, and what Grafana itself puts in.
_CHOSEN = {
    **LABELS,
    "operator_namespace": "penstock",
    "__rate_interval": "1m",
    "__range": "1h",
}
_VARIABLE = re.compile(r"\$(\w+)")


def _condition(kind: str, status: str, reason: str) -> Condition:
    return Condition.model_validate(
        {
            "type": kind,
            "status": status,
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
            "reason": reason,
            "message": "why",
        }
    )


@contextlib.contextmanager
def _closed(*servers: BaseServer) -> Iterator[None]:
    try:
        yield
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


@pytest.fixture(scope="module")
def exporters() -> Iterator[tuple[int, int]]:
    """The ports of an operator and a driver, whose stream is stalled and late, and lost records."""
    operator, driver = OperatorMetrics(), Metrics()
    driver.set_lag_seconds(1000.0)
    status = StreamStatus(
        conditions=[_condition("Ready", "True", "Running"), _condition("Stalled", "True", "Why")],
        mode="Continuous",
        last_commit_time=NOW,
        last_failure=LastFailure(reason="DataLoss", message="it", permanent=False, time=NOW),
    )
    operator.take_over(WorkQueue())
    operator.show(Key("shop", "flags"), status, 1.0)
    server, _ = start_http_server(0, "127.0.0.1", registry=operator.registry)
    page = serve(0, metrics_page(driver), "127.0.0.1")
    with _closed(server, page):
        yield server.server_port, page.server_port


@pytest.fixture(scope="module")
def running(
    exporters: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus with the labels that docs/metrics.md asks for."""
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(ALERTS, folder)
    operator, driver = (f"127.0.0.1:{port}" for port in exporters)
    of_operator = {"namespace": "penstock", "pod": "penstock-operator-1"}
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [ALERTS.name],
        "scrape_configs": [
            {
                "job_name": "penstock-operator",
                "honor_labels": True,
                "static_configs": [{"targets": [operator], "labels": of_operator}],
            },
            {
                "job_name": "penstock-drivers",
                "static_configs": [{"targets": [driver], "labels": LABELS}],
            },
        ],
    }
    with running_prometheus(folder, config) as started:
        yield started


def test_an_alert_about_a_stream_has_its_labels_and_its_runbook(running: Prometheus) -> None:
    """Those of the stream, although the operator exports it."""

    def firing() -> list[dict[str, Any]]:
        return [e for e in running.alerts("PenstockRecordsLost") if e["state"] == "firing"]

    (alert,) = wait_for("the alert", firing)
    assert alert["labels"].items() >= LABELS.items()
    assert alert["annotations"]["summary"] == "Kafka deleted records before shop/flags read them"
    assert (RUNBOOKS / alert["annotations"]["runbook_url"].rpartition("/")[2]).exists()


def test_the_text_of_an_alert_names_the_reason(running: Prometheus) -> None:
    """Which is no label, because it may change while the alert fires."""
    (alert,) = wait_for("the alert", lambda: running.alerts("PenstockStreamStalled"))
    assert "with the reason Why." in alert["annotations"]["description"]
    assert "reason" not in alert["labels"]


def test_the_series_of_a_driver_and_of_its_stream_fit_together(running: Prometheus) -> None:
    """The driver's lag is late for the interval that the operator exports."""
    late = "namespace_name:penstock_stream_stale:bool == 1"
    (series,) = wait_for("the recorded series", lambda: running.query(late))
    assert series["metric"].items() >= LABELS.items()


@pytest.mark.proves(35)
def test_every_query_of_a_runbook_can_be_asked(running: Prometheus) -> None:
    """With the alert's labels as variables; the answer may be empty."""
    wait_for("a scrape of both", lambda: len(running.query("up == 1")) == 2)
    for page in sorted(RUNBOOKS.glob("*.md")):
        for query in blocks(page.read_text(), "promql"):
            running.query(query.replace("$NAMESPACE", "shop").replace("$NAME", "flags"))


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_every_query_of_a_dashboard_can_be_asked(running: Prometheus, dashboard: Dashboard) -> None:
    """With values for its variables; the answer may be empty."""
    wait_for("a scrape of both", lambda: len(running.query("up == 1")) == 2)
    for panel in dashboard.panels:
        for expression in panel.queries.values():
            running.query(_VARIABLE.sub(lambda found: _CHOSEN[found[1]], expression))


def test_the_fleet_shows_each_stream_and_its_lag(running: Prometheus) -> None:
    """The dashboard's filter fits the labels of both exporters."""
    wait_for("a scrape of both", lambda: len(running.query("up == 1")) == 2)
    panels = {panel.title: panel for panel in DASHBOARDS[0].panels}
    for title in ("Which streams are not ready, and why?", "Oldest waiting record, by stream"):
        (expression,) = panels[title].queries.values()
        (series,) = running.query(expression.replace("$namespace", ".*"))
        assert series["metric"].items() >= LABELS.items()


HOSTILE = """
penstock_operator_leader 1
penstock_operator_leader{job="penstock-operator",namespace="penstock"} 1
penstock_stream_state{job="penstock-operator",namespace="shop",name="flags",state="Running"} 1
penstock_stream_condition{namespace="shop",name="flags",condition="Stalled",status="True"} 1
penstock_driver_lag_seconds{namespace="shop",name="flags",job="penstock-operator"} 1000000
up{namespace="shop"} 0
"""


def _pod(port: int, namespace: str, name: str, component: str, **labels: str) -> dict[str, Any]:
    """What Kubernetes' discovery says of a pod."""
    meta = {
        "namespace": namespace,
        "pod_name": name,
        "pod_label_app_kubernetes_io_name": "penstock",
        "pod_label_app_kubernetes_io_managed_by": "penstock",
        "pod_label_app_kubernetes_io_component": component,
        "pod_container_port_name": "metrics",
        "pod_container_port_number": "8091",
        **labels,
    }
    found = {f"__meta_kubernetes_{label}": value for label, value in meta.items()}
    return {"targets": [f"127.0.0.1:{port}"], "labels": found}


@pytest.mark.proves(35)
def test_the_page_of_a_driver_speaks_for_nobody_else_and_is_bounded(tmp_path: Path) -> None:
    """By the document's configuration. A tenant serves what it likes beside an operator that does
    not lead and an honest driver: operator's names, another stream's labels, a million series.
    """
    operator, driver = OperatorMetrics(), Metrics()
    operator.step_back()
    driver.set_lag_seconds(1.0)
    series = 'penstock_driver_lag_seconds{{n="{}"}} 1\n'.format
    million = "".join(map(series, range(1_000_000))).encode()
    many = "".join(map(series, range(20_000))).encode()
    pages = [
        serve(0, {"/metrics": partial(_served, content)}, "127.0.0.1")
        for content in (HOSTILE.encode(), million, many)
    ]
    server, _ = start_http_server(0, "127.0.0.1", registry=operator.registry)
    honest = serve(0, metrics_page(driver), "127.0.0.1")
    hostile, flood, crowd = (page.server_port for page in pages)
    pods = [
        _pod(server.server_port, "penstock", "penstock-operator-1", "operator"),
        _pod(honest.server_port, "shop", "flags-driver-0", "driver"),
        # It has taken the label of another stream.
        _pod(hostile, "evil", "evil-driver-0", "driver", pod_label_penstock_dev_stream="flags"),
        _pod(flood, "evil", "flood-driver-0", "driver"),
        _pod(crowd, "evil", "crowd-driver-0", "driver"),
        _pod(crowd, "evil", "no-stream", "driver"),
    ]
    config = _documented(pods)
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    shutil.copy(ALERTS, tmp_path)
    with _closed(server, honest, *pages), running_prometheus(tmp_path, config) as running:
        wait_for("each was scraped", lambda: len(running.query("up")) == 5)
        wait_for("the alert", lambda: running.alerts("PenstockLeaderLost"))
        wait_for("the hostile page", lambda: running.query('up{name="evil"} == 1'))
        drivers = 'job="penstock-drivers"'
        names = {it["metric"]["__name__"] for it in running.query(f'{{{drivers}, name="evil"}}')}
        made = {name for name in names if name != "up" and not name.startswith("scrape_")}
        assert made == {"penstock_driver_lag_seconds"}
        (age,) = running.query('penstock_driver_lag_seconds{namespace="shop", name="flags"}')
        assert age["value"][1] == "1"
        assert {it["metric"]["name"] for it in running.query("up == 0")} == {"flood", "crowd"}
        for name in ("flood", "crowd"):
            assert running.query(f'penstock_driver_lag_seconds{{name="{name}"}}') == []
        assert not running.alerts("PenstockStreamStalled")
        assert not running.alerts("PenstockOperatorAbsent")


def _served(content: bytes) -> tuple[int, str, bytes]:
    return 200, "text/plain; version=0.0.4", content


def _documented(pods: list[dict[str, Any]]) -> dict[str, Any]:
    """The configuration in docs/metrics.md, but for how it finds pods.

    Debian's Prometheus was built without that.
    """
    (text,) = blocks((CHECKOUT / "docs" / "metrics.md").read_text(), "")
    config: dict[str, Any] = yaml.safe_load(text)
    for job in config["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        job["static_configs"] = pods
    return config


def test_the_configuration_in_the_document_is_one_that_prometheus_reads(tmp_path: Path) -> None:
    config = _documented([])
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    shutil.copy(ALERTS, tmp_path)
    command = [str(promtool()), "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
