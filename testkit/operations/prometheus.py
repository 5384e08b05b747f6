"""A real Prometheus on this machine, from Debian's package.

It was built without Kubernetes' service discovery: give it static targets, or files of targets.
"""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
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
        return self._get(f"query?{urllib.parse.urlencode({'query': expression})}", "result")

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """The alerts of this name, pending and firing."""
        found = self._get("alerts", "alerts")
        return [alert for alert in found if alert["labels"]["alertname"] == name]

    def _get(self, path: str, field: str) -> list[dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=10) as answer:
                return list(json.load(answer)["data"][field])
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it starts
                return []
            raise AssertionError(f"{path}: {error.read().decode()}") from error
        except OSError:
            return []


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
