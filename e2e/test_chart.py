"""The chart: linted, its values checked, and what it renders accepted by a real API server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from e2e.cluster.apiserver import api_server
from e2e.cluster.tools import tool
from e2e.kube import Kube, wait_for
from e2e.test_admission import _served

pytestmark = pytest.mark.real

CHART = Path(__file__).resolve().parent.parent / "charts" / "penstock"


def _helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tool("helm")), *arguments], capture_output=True, text=True, timeout=120
    )


def test_the_chart_passes_lint() -> None:
    """Strictly: a warning is a failure."""
    done = _helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "wrong", ["replicas=2", "image.repository=", "watchNamespaces=default", "crds.install=maybe"]
)
def test_a_wrong_value_is_refused(wrong: str) -> None:
    """By the values' own schema, with the value named."""
    done = _helm("template", "penstock", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert wrong.split("=")[0].split(".")[0] in done.stderr


@pytest.mark.parametrize("values", [(), ("--set", "watchNamespaces={one,two}")])
def test_what_it_renders_is_accepted_by_a_real_api_server(values: tuple[str, ...]) -> None:
    """As a server-side dry run, with strict validation."""
    rendered = _helm("template", "penstock", str(CHART), "--namespace=default", *values)
    assert rendered.returncode == 0, rendered.stderr
    with api_server() as server:
        kube = Kube(server.kubectl, server.kubeconfig)
        if "{" in "".join(values):
            for name in ("one", "two"):
                kube.run("create", "namespace", name)
        said = kube.run(
            "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered.stdout
        )
        assert "deployment.apps/penstock-operator created (server dry run)" in said
        kube.run("apply", "-f", "-", stdin=rendered.stdout)
        wait_for("the kind is served", lambda: _served(kube), 30)
