"""PodMonitors become what the Prometheus operator and Kubernetes' discovery make of them."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.operations.pod_monitors import scrape_configs, targets

MONITOR: dict[str, Any] = {
    "metadata": {"namespace": "penstock", "name": "drivers"},
    "spec": {
        "selector": {"matchLabels": {"app.kubernetes.io/component": "driver"}},
        "podMetricsEndpoints": [
            {
                "port": "metrics",
                "relabelings": [
                    {
                        "sourceLabels": ["__meta_kubernetes_pod_label_penstock_dev_stream"],
                        "targetLabel": "name",
                    }
                ],
            }
        ],
    },
}
POD = {
    "metadata": {
        "namespace": "shop",
        "name": "flags-driver-0",
        "labels": {"penstock.dev/stream": "flags"},
    },
    "spec": {
        "containers": [{"name": "driver", "ports": [{"name": "metrics", "containerPort": 8091}]}]
    },
    "status": {"phase": "Running"},
}


def _kept(namespaces: dict[str, Any]) -> list[tuple[str, str]]:
    """The labels that a pod needs, and their values, for a choice of namespaces."""
    spec = {**MONITOR["spec"], "namespaceSelector": namespaces}
    (config,) = scrape_configs([{**MONITOR, "spec": spec}], "targets.json")
    return [
        (rule["source_labels"][0].removeprefix("__meta_kubernetes_"), rule["regex"])
        for rule in config["relabel_configs"]
        if rule.get("action") == "keep"
    ]


@pytest.mark.parametrize(
    ("namespaces", "regex"),
    [({}, "penstock"), ({"matchNames": ["shop", "bank"]}, "shop|bank")],
)
def test_a_monitor_selects_pods_of_its_namespaces(namespaces: dict[str, Any], regex: str) -> None:
    """Its own if it names none."""
    assert _kept(namespaces) == [
        ("pod_label_app_kubernetes_io_component", "driver"),
        ("namespace", regex),
        ("pod_container_port_name", "metrics"),
    ]


def test_a_monitor_may_select_pods_of_all_namespaces() -> None:
    assert "namespace" not in dict(_kept({"any": True}))


def test_the_relabelings_of_a_monitor_come_last() -> None:
    """They may override the others."""
    (config,) = scrape_configs([MONITOR], "targets.json")
    assert config["relabel_configs"][-1] == {
        "source_labels": ["__meta_kubernetes_pod_label_penstock_dev_stream"],
        "target_label": "name",
    }


def test_a_target_is_a_port_of_a_pod_behind_the_api_server() -> None:
    (target,) = targets([POD], "127.0.0.1:8001")
    assert target["targets"] == ["127.0.0.1:8001"]
    path = "/api/v1/namespaces/shop/pods/flags-driver-0:8091/proxy/metrics"
    assert target["labels"]["__metrics_path__"] == path
    assert target["labels"]["__meta_kubernetes_pod_label_penstock_dev_stream"] == "flags"


def test_a_monitor_may_select_pods_without_a_label() -> None:
    """As the chart's does for a release without a class; another operator is no silent pass."""
    without = {"key": "penstock.dev/stream", "operator": "DoesNotExist"}
    selector = {**MONITOR["spec"]["selector"], "matchExpressions": [without]}
    spec = {**MONITOR["spec"], "selector": selector}
    (config,) = scrape_configs([{**MONITOR, "spec": spec}], "targets.json")
    present = "__meta_kubernetes_pod_labelpresent_penstock_dev_stream"
    rule = {"source_labels": [present], "regex": "true", "action": "drop"}
    assert rule in config["relabel_configs"]
    (target,) = targets([POD], "127.0.0.1:8001")
    assert target["labels"][present] == "true"
