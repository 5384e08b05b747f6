"""`penstock operator` as a process: killed, started again, and stopped by SIGTERM."""

from __future__ import annotations

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

from penstock.cluster import kinds
from penstock.cluster.objects import Object
from testkit.controller.control_plane import Namespace, control_plane
from testkit.controller.operator_process import OperatorProcess
from testkit.kafka.broker import free_ports
from testkit.kubernetes.api_server import ApiServer
from testkit.wait import wait_for_async


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of the test's own: the process watches every namespace."""
    with control_plane() as server:
        yield server


@pytest.mark.proves(26)
async def test_it_recovers_from_sigkill_and_ends_cleanly_at_sigterm(
    server: ApiServer, space: Namespace, tmp_path: Path
) -> None:
    log = tmp_path / "operator.log"
    operator = OperatorProcess(server, log)
    try:
        await space.apply()
        await wait_for_async(
            "the first child", lambda: space.get(kinds.SERVICE_ACCOUNT, "flags-driver")
        )
    finally:
        operator.end(signal.SIGKILL)
    await space.apply(executor={"cores": 2})
    operator = OperatorProcess(server, log)
    try:

        async def rolled_out() -> bool:
            owner = await space.get(kinds.STATEFUL_SET, "flags-driver")
            pod = await space.pod()
            return (
                owner is not None
                and pod is not None
                and (await space.status()).get("observedGeneration") == 2
                and Object(pod).labels["controller-revision-hash"]
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
    (tmp_path / "settings.yaml").write_text("sparkImage: any")
    health, metrics = free_ports(2)
    with subprocess.Popen(
        [
            sys.executable, "-X", "importtime", "-m", "penstock.cli", "operator",
            f"--settings={tmp_path}/settings.yaml",
            f"--health-port={health}", f"--metrics-port={metrics}",
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
