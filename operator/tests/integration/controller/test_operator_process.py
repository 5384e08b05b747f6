"""`penstock operator` as a process: killed, started again, and stopped by SIGTERM."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.controller import objects
from testkit.controller import samples
from testkit.controller.control_plane import Namespace, control_plane
from testkit.kafka.broker import free_ports
from testkit.kubernetes.api_server import ApiServer
from testkit.wait import wait_for_async


class Process:
    """The operator as its image runs it, watching all namespaces."""

    def __init__(self, server: ApiServer, log: Path) -> None:
        self.health, self.metrics = free_ports(2)
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "penstock.cli", "operator",
                    f"--default-image={samples.IMAGE}",
                    f"--health-port={self.health}",
                    f"--metrics-port={self.metrics}",
                ],
                env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
                stdout=output,
                stderr=output,
            )  # fmt: skip

    def page(self, port: int, path: str) -> str:
        """The text of one of its pages; empty while the page is not served."""
        url = f"http://127.0.0.1:{port}{path}"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
        assert self._process.poll() is None, self._log.read_text()
        return ""

    def end(self, with_signal: signal.Signals) -> int:
        """Sends the signal, waits for the exit, and returns the exit code."""
        self._process.send_signal(with_signal)
        return self._process.wait(timeout=60)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of the test's own: the process watches every namespace."""
    with control_plane() as server:
        yield server


async def test_it_recovers_from_sigkill_and_ends_cleanly_at_sigterm(
    server: ApiServer, space: Namespace, tmp_path: Path
) -> None:
    log = tmp_path / "operator.log"
    operator = Process(server, log)
    try:
        await space.apply()
        await wait_for_async(
            "the first child", lambda: space.get(objects.SERVICE_ACCOUNT, "flags-driver")
        )
    finally:
        operator.end(signal.SIGKILL)
    await space.apply(executor={"cores": 2})
    operator = Process(server, log)
    try:

        async def rolled_out() -> bool:
            owner = await space.get(objects.STATEFUL_SET, "flags-driver")
            pod = await space.pod()
            return (
                owner is not None
                and pod is not None
                and (await space.status()).get("observedGeneration") == 2
                and objects.labels_of(pod)["controller-revision-hash"]
                == (owner.get("status") or {}).get("updateRevision")
            )

        await wait_for_async("the rollout of the edit", rolled_out)
        await space.run_driver()
        await space.wait_ready()
        assert operator.page(operator.health, "/healthz")
        text = operator.page(operator.metrics, "/metrics")
        assert f'name="flags",namespace="{space.name}",state="Running"}} 1.0' in text
    finally:
        code = operator.end(signal.SIGTERM)
    assert code == 0, log.read_text()
    assert "Traceback" not in log.read_text()


NO_SERVER_KUBECONFIG = {
    "clusters": [{"name": "any", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "any", "user": {"token": "any"}}],
    "contexts": [{"name": "any", "context": {"cluster": "any", "user": "any"}}],
    "current-context": "any",
}


@pytest.mark.parametrize("phase", ["import time: .* kopf", "waiting for the API server"])
def test_sigterm_during_the_start_ends_it_cleanly(phase: str, tmp_path: Path) -> None:
    """While Python imports, and while the API server is not reachable."""
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(NO_SERVER_KUBECONFIG))
    health, metrics = free_ports(2)
    with subprocess.Popen(
        [
            sys.executable, "-X", "importtime", "-m", "penstock.cli", "operator",
            "--default-image=any", f"--health-port={health}", f"--metrics-port={metrics}",
        ],
        env={**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")},
        stderr=subprocess.PIPE,
        text=True,
    ) as operator:  # fmt: skip
        assert operator.stderr is not None
        assert any(re.search(phase, line) for line in operator.stderr)
        if "API server" in phase:
            for host in ("127.0.0.1", "[::1]") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
                # Otherwise the startup probe would end an operator that waits.
                with urllib.request.urlopen(f"http://{host}:{health}/healthz", timeout=5) as page:
                    assert page.status == 200
        operator.send_signal(signal.SIGTERM)
        assert "kopf._core.reactor.observation Request" not in operator.stderr.read()
        assert operator.wait(30) == 0
