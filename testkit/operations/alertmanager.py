"""A real Alertmanager on this machine, from Debian's package, and whom it notifies."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from penstock.local.tools.child_process import ChildProcess
from testkit.kafka.broker import free_ports
from testkit.tools.debian import alertmanager, with_its_files


@dataclass(frozen=True)
class Notification:
    """An alert that fired, and that may have been resolved since."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    fired: float
    """When it fired: seconds since 1970."""
    resolved: float | None
    """When it was resolved; None if it still fires."""

    @property
    def name(self) -> str:
        return self.labels["alertname"]


class Notifications:
    """Every notification so far, by a webhook."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[frozenset[tuple[str, str]], str], Notification] = {}

    def receive(self, message: Mapping[str, Any]) -> None:
        """Takes one message of Alertmanager's webhook receiver."""
        with self._lock:
            for alert in message["alerts"]:
                is_over = alert["status"] == "resolved"
                key = (frozenset(alert["labels"].items()), alert["startsAt"])
                self._found[key] = Notification(
                    alert["labels"],
                    alert["annotations"],
                    _seconds(alert["startsAt"]),
                    _seconds(alert["endsAt"]) if is_over else None,
                )

    def about(self, **labels: str) -> list[Notification]:
        """Those with these labels, such as alertname, in the order in which they fired."""
        with self._lock:
            found = [e for e in self._found.values() if labels.items() <= e.labels.items()]
        return sorted(found, key=lambda each: each.fired)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


@contextlib.contextmanager
def running_alertmanager(folder: Path, webhook: str) -> Iterator[str]:
    """Alertmanager on loopback, which sends each alert to a URL at once; yields its address."""
    config = {
        "route": {
            "receiver": "test",
            "group_by": ["..."],  # a group for each alert
            "group_wait": "0s",
            "group_interval": "1s",
        },
        "receivers": [{"name": "test", "webhook_configs": [{"url": webhook}]}],
    }
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    command = [
        *with_its_files(alertmanager()),  # it reads its templates
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",  # it is alone
    ]
    process = ChildProcess(command, log=folder / "alertmanager.log")
    try:
        yield address
    finally:
        process.stop(30)
