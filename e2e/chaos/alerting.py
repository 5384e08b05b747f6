"""A real Prometheus watches the cluster by the chart's monitors and rules.

It runs on this machine. It reaches pods and kubelets as `kubectl proxy` does: through the API
server.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.driver.background_threads import repeat_in_background
from testkit.cluster.access import Cluster
from testkit.cluster.install import CHART, NAMESPACE, RELEASE
from testkit.kubernetes.kubectl import Object
from testkit.operations.alert_rules import ALERTS, rules
from testkit.operations.pod_monitors import scrape_configs, targets
from testkit.operations.prometheus import AlertLog, FiredAlert, Prometheus, running_prometheus
from testkit.paths import CHECKOUT
from testkit.wait import wait_for

# A fault of the tests lasts for seconds: no alert waits for minutes, by a value of the chart.
_FOR = "2s"
_EVERY = "2s"
_RUNBOOKS = CHECKOUT / "docs" / "runbooks"


@dataclass(frozen=True)
class Alerting:
    """What Prometheus knows, and the alerts that have fired."""

    prometheus: Prometheus
    log: AlertLog

    def wait_fired(self, alert: str, since: float, /, **labels: str) -> FiredAlert:
        """Waits until an alert has fired since a moment; it has a runbook."""
        (found, *_) = wait_for(
            f"{alert} fires", lambda: self.fired(alert, since, **labels), every=0.5
        )
        assert (_RUNBOOKS / found.annotations["runbook_url"].rpartition("/")[2]).exists()
        return found

    def wait_resolved(self, fired: FiredAlert) -> FiredAlert:
        def resolved() -> FiredAlert | None:
            now = self.log.about(**fired.labels)
            return next((e for e in now if e.fired >= fired.fired and e.resolved), None)

        found = wait_for(f"{fired.name} is resolved", resolved, every=0.5)
        assert found is not None
        return found

    def fired(self, alert: str, since: float, /, **labels: str) -> list[FiredAlert]:
        found = self.log.about(alertname=alert, **labels)
        return [alert for alert in found if alert.fired >= since]


@contextlib.contextmanager
def alerting(cluster: Cluster, folder: Path, every: str = _EVERY) -> Iterator[Alerting]:
    """Prometheus, configured by what the chart renders; it looks this often."""
    rendered = _rendered(cluster)
    monitors = [document for document in rendered if document["kind"] == "PodMonitor"]
    (rule,) = (document for document in rendered if document["kind"] == "PrometheusRule")
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    with (
        _proxy(cluster, folder) as api,
        _discovery(api, folder),
        running_prometheus(
            folder,
            {
                "global": {
                    "scrape_interval": every,
                    "scrape_timeout": every,
                    "evaluation_interval": every,
                },
                "rule_files": ["rules.yaml"],
                "scrape_configs": [
                    *scrape_configs(monitors, "targets.json"),
                    _kubelets(cluster, api),
                ],
            },
        ) as prometheus,
    ):
        log = AlertLog(prometheus)
        with repeat_in_background(log.look, 0.25):
            yield Alerting(prometheus, log)


def _rendered(cluster: Cluster) -> list[Object]:
    waits: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for alert in rules(ALERTS.read_text()):
        if alert.is_alert:
            waits[alert.name][alert.severity] = _FOR
    values = {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True, "for": waits}}
    templates = [f"--show-only=templates/{name}.yaml" for name in ("podmonitor", "prometheusrule")]
    words = ["template", RELEASE, str(CHART), "--values=-", *templates]
    rendered = cluster.run_helm(NAMESPACE, *words, stdin=json.dumps(values))
    return list(yaml.safe_load_all(rendered))


def _kubelets(cluster: Cluster, api: str) -> dict[str, Any]:
    kept = {"source_labels": ["__name__"], "regex": "kubelet_volume_stats_.*", "action": "keep"}
    return {
        "job_name": "kubelet",
        "honor_labels": True,
        "static_configs": [
            {
                "targets": [api],
                "labels": {"__metrics_path__": f"/api/v1/nodes/{node}/proxy/metrics", "node": node},
            }
            for node in cluster.nodes[:1]
        ],
        "metric_relabel_configs": [kept],
    }


@contextlib.contextmanager
def _proxy(cluster: Cluster, folder: Path) -> Iterator[str]:
    """The API server's address on loopback, without credentials."""
    command = [
        str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", "proxy", "--port=0",
    ]  # fmt: skip
    with (
        (folder / "proxy.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]  # Starting to serve on 127.0.0.1:PORT
        finally:
            process.terminate()


def _discovery(api: str, folder: Path) -> AbstractContextManager[None]:
    def look() -> None:
        with contextlib.suppress(OSError):  # the API server is busy: the next look finds it all
            with urllib.request.urlopen(f"http://{api}/api/v1/pods", timeout=10) as answer:
                pods = json.load(answer)["items"]
            new = folder / "targets.new"
            new.write_text(json.dumps(targets(pods, api)))
            new.rename(folder / "targets.json")

    return repeat_in_background(look, 1.0)
