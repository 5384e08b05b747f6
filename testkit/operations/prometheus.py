"""A real Prometheus on this machine, from Debian's package.

It was built without Kubernetes' service discovery: give it static targets, or files of targets.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from penstock.local.tools.child_process import ChildProcess
from testkit.kafka.broker import free_ports
from testkit.tools.debian import prometheus


class Prometheus:
    """Its API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query; none while it starts. AssertionError if it is none."""
        query = urllib.parse.urlencode({"query": expression})
        return self._get(f"query?{query}", "result") or []

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """The alerts of this name, pending and firing."""
        alerts = self._get("alerts", "alerts") or []
        return [alert for alert in alerts if alert["labels"]["alertname"] == name]

    def firing(self) -> list[dict[str, Any]] | None:
        """The alerts that fire; None without an answer."""
        alerts = self._get("alerts", "alerts")
        return None if alerts is None else [it for it in alerts if it["state"] == "firing"]

    def _get(self, path: str, field: str) -> list[dict[str, Any]] | None:
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=10) as answer:
                return list(json.load(answer)["data"][field])
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it starts
                return None
            raise AssertionError(f"{path}: {error.read().decode()}") from error
        except OSError:
            return None


@dataclass(frozen=True)
class FiredAlert:
    """An alert that fired, and that may have been resolved since."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    fired: float
    """When it was first seen to fire: seconds since 1970."""
    resolved: float | None = None
    """When it was first seen not to fire any more; None if it still fires."""

    @property
    def name(self) -> str:
        return self.labels["alertname"]


class AlertLog:
    """Every alert that fired while somebody looked."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._alerts: dict[tuple[frozenset[tuple[str, str]], str], FiredAlert] = {}

    def look(self) -> None:
        firing = self._prometheus.firing()
        if firing is None:
            return
        now, keys = time.time(), set()
        for alert in firing:
            key = (frozenset(alert["labels"].items()), alert["activeAt"])
            keys.add(key)
            self._alerts.setdefault(key, FiredAlert(alert["labels"], alert["annotations"], now))
        for key, known in list(self._alerts.items()):
            if known.resolved is None and key not in keys:
                self._alerts[key] = replace(known, resolved=now)

    def about(self, **labels: str) -> list[FiredAlert]:
        """Those with these labels, such as alertname, in the order in which they fired."""
        alerts = [it for it in list(self._alerts.values()) if labels.items() <= it.labels.items()]
        return sorted(alerts, key=lambda alert: alert.fired)


@contextlib.contextmanager
def running_prometheus(folder: Path, config: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Prometheus with this configuration, on loopback. Paths in it are relative to the folder."""
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(config)))
    (port,) = free_ports(1)
    command = [
        str(prometheus()),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = ChildProcess(command, log=folder / "prometheus.log")
    try:
        yield Prometheus(port)
    finally:
        process.stop(30)
