"""The chart passes lint, checks its values, and renders objects that a real API server accepts."""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml

from testkit.kubernetes.api_server import api_server
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT
from testkit.tools import tool

CHART = CHECKOUT / "charts" / "penstock"


def _helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tool("helm")), *arguments], capture_output=True, text=True, timeout=120
    )


def test_the_chart_passes_lint() -> None:
    """In strict mode: a warning is a failure."""
    done = _helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        "replicas=two",
        "image.repository=",
        "watchNamespaces=default",
        "crds.install=maybe",
        "podSecurity=none",
        "networkPolicies.enabled=perhaps",
        "podMonitor.interval=often",
        "prometheusRule.enabled=maybe",
        "prometheusRule.runbookUrl=here",
        "dashboards.labels=grafana",
    ],
)
def test_a_wrong_value_is_refused(wrong: str) -> None:
    """By the schema of the values, and the message names the value."""
    done = _helm("template", "penstock", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert wrong.split("=")[0].split(".")[0] in done.stderr


def test_each_dashboard_is_a_config_map_for_the_sidecar_of_grafana() -> None:
    """With the value's labels and annotations; the runbooks are where the alerts have them."""
    values = (
        "dashboards.enabled=true,dashboards.labels.team=data,"
        "dashboards.annotations.grafana_folder=Streams,"
        "prometheusRule.runbookUrl=https://books.example/"
    )
    template = "--show-only=templates/dashboards.yaml"
    done = _helm("template", "penstock", str(CHART), "--set", values, template)
    made = list(yaml.safe_load_all(done.stdout))
    for each in made:
        metadata, data = each["metadata"], each["data"]
        assert metadata["labels"].items() >= {"grafana_dashboard": "1", "team": "data"}.items()
        assert metadata["annotations"] == {"grafana_folder": "Streams"}
        ((name, text),) = data.items()
        source = (CHART / "files/dashboards" / name.removeprefix("penstock-")).read_text()
        address = "https://penstock.dev/docs/runbooks"
        assert text == source.replace(address, "https://books.example")
    files = (CHART / "files/dashboards").glob("*.json")
    assert sorted(each["metadata"]["name"] for each in made) == sorted(
        f"penstock-operator-dashboard-{path.stem}" for path in files
    )


def test_without_the_value_there_is_no_dashboard() -> None:
    done = _helm("template", "penstock", str(CHART))
    assert done.returncode == 0
    assert "grafana" not in done.stdout


OPERATOR = "system:serviceaccount:default:penstock-operator"


@pytest.mark.parametrize(
    ("values", "elsewhere"), [((), True), (("--set", "watchNamespaces={one,two}"), False)]
)
def test_what_it_renders_is_accepted_by_a_real_api_server(
    values: tuple[str, ...], elsewhere: bool
) -> None:
    """In a server-side dry run with strict validation. The rights are those of docs/rbac.md."""
    rendered = _helm("template", "penstock", str(CHART), "--namespace=default", *values)
    assert rendered.returncode == 0, rendered.stderr
    with api_server() as server:
        kube = server.kube()
        for name in ("one", "two", "three"):
            kube.run("create", "namespace", name)
        output = kube.run(
            "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered.stdout
        )
        assert "deployment.apps/penstock-operator created (server dry run)" in output
        kube.run("apply", "-f", "-", stdin=rendered.stdout)
        kube.wait_until_served("cstream")
        assert _may(kube, "patch", "apps", "statefulsets", "one")
        assert _may(kube, "patch", "apps", "statefulsets", "three") is elsewhere
        assert not _may(kube, "get", "", "secrets", "one")
        assert _may(kube, "create", "coordination.k8s.io", "leases", "default")
        assert not _may(kube, "create", "coordination.k8s.io", "leases", "one")
        assert not _may(kube, "delete", "", "persistentvolumeclaims", "one")


def _may(kube: Kube, verb: str, group: str, resource: str, namespace: str) -> bool:
    """Whether the API server allows the operator to do this."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": OPERATOR,
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "namespace": namespace,
            },
        },
    }
    answer = kube.run("create", "-o", "json", "-f", "-", stdin=json.dumps(review))
    allowed: bool = json.loads(answer)["status"]["allowed"]
    return allowed
