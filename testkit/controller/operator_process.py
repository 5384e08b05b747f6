"""`penstock operator` as a process of this machine, against a real API server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from testkit.controller import samples
from testkit.kafka.broker import free_ports
from testkit.kubernetes.api_server import ApiServer


class OperatorProcess:
    """The operator as its image runs it, watching all namespaces."""

    def __init__(self, server: ApiServer, log: Path, *options: str, **settings: Any) -> None:
        """The settings have the names of the file."""
        self.health, self.metrics = free_ports(2)
        self.log = log
        file = log.with_suffix(".settings.yaml")
        file.write_text(yaml.safe_dump({"sparkImage": samples.IMAGE, **settings}))
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "penstock.cli", "operator",
                    f"--settings={file}",
                    f"--health-port={self.health}",
                    f"--metrics-port={self.metrics}",
                    *options,
                ],
                # MALLOC_ARENA_MAX as in the image.
                env={
                    **os.environ,
                    "KUBECONFIG": str(server.kubeconfig),
                    "MALLOC_ARENA_MAX": "1",
                },
                stdout=output,
                stderr=output,
            )  # fmt: skip

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def page(self, port: int, path: str) -> str:
        """The text of one of its pages; empty while the page is not served."""
        url = f"http://127.0.0.1:{port}{path}"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
        assert self._process.poll() is None, self.log.read_text()
        return ""

    def peak_bytes(self) -> int:
        """The most memory that it has had, with the processes that judge texts: an upper bound."""
        own = self._process.pid
        tasks = Path(f"/proc/{own}/task").glob("*/children")  # each thread has its own
        children = [pid for task in tasks for pid in _text_of(task).split()]
        return sum(map(_peak_of, [str(own), *children]))

    def end(self, with_signal: signal.Signals) -> int:
        """Sends the signal, waits for the exit, and returns the exit code."""
        self._process.send_signal(with_signal)
        return self._process.wait(timeout=60)


def _text_of(path: Path) -> str:
    """Empty if the process has ended."""
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _peak_of(pid: str) -> int:
    _, _, peak = _text_of(Path(f"/proc/{pid}/status")).partition("VmHWM:")
    return int(peak.split()[0]) << 10 if peak else 0
