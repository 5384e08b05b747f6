"""PodMonitors for a Prometheus without the Prometheus operator and without Kubernetes' discovery.

They become what both would make of them: scrape configurations, and targets with the labels
`__meta_kubernetes_*`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from testkit.kubernetes.kubectl import Object

_META = "__meta_kubernetes"
_NO_LABEL_NAME = re.compile(r"[^a-zA-Z0-9_]")
_RELABELING = {
    "sourceLabels": "source_labels",
    "targetLabel": "target_label",
    "regex": "regex",
    "action": "action",
    "replacement": "replacement",
    "separator": "separator",
    "modulus": "modulus",
}
_LIMITS = {
    "bodySizeLimit": "body_size_limit",
    "sampleLimit": "sample_limit",
    "labelLimit": "label_limit",
    "labelNameLengthLimit": "label_name_length_limit",
    "labelValueLengthLimit": "label_value_length_limit",
}


def scrape_configs(monitors: Iterable[Object], targets_file: str) -> list[dict[str, Any]]:
    """Prometheus' configuration for PodMonitors, with the targets in a file."""
    return [
        {
            "job_name": f"podMonitor/{_key(monitor)}/{number}",
            "honor_labels": endpoint.get("honorLabels", False),
            "file_sd_configs": [{"files": [targets_file]}],
            "relabel_configs": [*_relabelings(monitor, endpoint)],
            "metric_relabel_configs": [*_own(endpoint.get("metricRelabelings", []))],
            **{
                ours: monitor["spec"][its]
                for its, ours in _LIMITS.items()
                if its in monitor["spec"]
            },
        }
        for monitor in monitors
        for number, endpoint in enumerate(monitor["spec"]["podMetricsEndpoints"])
    ]


def targets(pods: Iterable[Object], address: str) -> list[dict[str, Any]]:
    """The ports of pods, as Prometheus takes them from a file.

    `address` is that of the API server, which reaches the pods.
    """
    return [
        {"targets": [address], "labels": _meta_labels(pod, container, port)}
        for pod in pods
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
    ]


def _relabelings(monitor: Object, endpoint: Object) -> Iterator[dict[str, Any]]:
    """Those that the Prometheus operator (0.80) writes, and then the monitor's own."""
    spec, namespace = monitor["spec"], monitor["metadata"]["namespace"]
    yield _drop("pod_phase", "Failed|Succeeded")
    for label, value in spec["selector"]["matchLabels"].items():
        yield _keep(f"pod_label_{_sanitized(label)}", value)
    for expression in spec["selector"].get("matchExpressions", []):
        assert expression["operator"] == "DoesNotExist", expression
        yield _drop(f"pod_labelpresent_{_sanitized(expression['key'])}", "true")
    chosen = spec.get("namespaceSelector", {})
    if not chosen.get("any"):
        yield _keep("namespace", *chosen.get("matchNames", [namespace]))
    yield _keep("pod_container_port_name", endpoint["port"])
    yield _copy("namespace", "namespace")
    yield _copy("pod_container_name", "container")
    yield _copy("pod_name", "pod")
    yield {"target_label": "job", "replacement": _key(monitor)}
    yield {"target_label": "endpoint", "replacement": endpoint["port"]}
    yield from _own(endpoint.get("relabelings", []))


def _own(relabelings: Iterable[Object]) -> Iterator[dict[str, Any]]:
    for own in relabelings:
        yield {_RELABELING[field]: value for field, value in own.items()}


def _keep(label: str, *values: str) -> dict[str, Any]:
    anyone = "|".join(map(re.escape, values))
    return {"source_labels": [f"{_META}_{label}"], "regex": anyone, "action": "keep"}


def _drop(label: str, regex: str) -> dict[str, Any]:
    return {"source_labels": [f"{_META}_{label}"], "regex": regex, "action": "drop"}


def _copy(label: str, to: str) -> dict[str, Any]:
    return {"source_labels": [f"{_META}_{label}"], "target_label": to}


def _meta_labels(pod: Object, container: Object, port: Mapping[str, Any]) -> dict[str, str]:
    metadata, number = pod["metadata"], port["containerPort"]
    namespace, name = metadata["namespace"], metadata["name"]
    labels = metadata.get("labels", {})
    return {
        "__metrics_path__": f"/api/v1/namespaces/{namespace}/pods/{name}:{number}/proxy/metrics",
        f"{_META}_namespace": namespace,
        f"{_META}_pod_name": name,
        f"{_META}_pod_phase": pod["status"].get("phase", ""),
        f"{_META}_pod_container_name": container["name"],
        f"{_META}_pod_container_port_name": port.get("name", ""),
        f"{_META}_pod_container_port_number": str(number),
        **{f"{_META}_pod_label_{_sanitized(label)}": value for label, value in labels.items()},
        **{f"{_META}_pod_labelpresent_{_sanitized(label)}": "true" for label in labels},
    }


def _key(monitor: Object) -> str:
    return f"{monitor['metadata']['namespace']}/{monitor['metadata']['name']}"


def _sanitized(label: str) -> str:
    return _NO_LABEL_NAME.sub("_", label)
