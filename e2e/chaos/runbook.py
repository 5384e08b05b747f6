"""Follows a runbook while its alert fires: runs its commands and asks its queries as written."""

from __future__ import annotations

import os
import subprocess

from e2e.chaos.alerting import Alerting
from testkit.cluster.access import Cluster
from testkit.cluster.install import NAMESPACE
from testkit.operations.prometheus import FiredAlert
from testkit.operations.runbooks import blocks, sections
from testkit.paths import CHECKOUT
from testkit.wait import wait_for

# What the test cluster lacks: metrics-server, and the Prometheus operator's resources.
_NOT_HERE = ("kubectl get podmonitors", " top pods ")
# "Does the driver answer?" An error says no.
_MAY_FAIL = ("kubectl get --raw",)
# A container's log can be read when it has started.
_STARTING_SECONDS = 60
# A query that compares may have no answer, and only a stateful stream has these series.
_MAY_HAVE_NO_ANSWER = (" > ", "penstock_driver_state_", "penstock_driver_watermark_")


def follow(alert: FiredAlert, cluster: Cluster, alerts: Alerting) -> None:
    """Runs the section Diagnosis with the alert's labels as variables.

    AssertionError if a command fails, or if a query has no answer that must have one.
    """
    name = alert.annotations["runbook_url"].rpartition("/")[2]
    page = (CHECKOUT / "docs" / "runbooks" / name).read_text()
    diagnosis = sections(page)["Diagnosis"]
    variables = {
        "NAMESPACE": alert.labels.get("namespace", NAMESPACE),
        "NAME": alert.labels.get("name", ""),
        "OPERATOR_NAMESPACE": NAMESPACE,
    }
    for line in "\n".join(blocks(diagnosis, "sh")).splitlines():
        if not any(missing in line for missing in _NOT_HERE):
            _run(line, cluster, variables)
    for query in blocks(diagnosis, "promql"):
        found = alerts.prometheus.query(_filled(query, variables))
        needed = not any(part in query for part in _MAY_HAVE_NO_ANSWER)
        assert found or not needed, f"no answer to {query}"


def _run(line: str, cluster: Cluster, variables: dict[str, str]) -> None:
    """Runs a command; one that reads logs again, as a person would, until there is a log."""
    path = os.pathsep.join([str(cluster.kubectl.parent), os.environ["PATH"]])
    environment = {**os.environ, **variables, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}
    said = ""

    def works() -> bool:
        nonlocal said
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        said = done.stderr
        return done.returncode == 0 or line.startswith(_MAY_FAIL)

    seconds = _STARTING_SECONDS if " logs " in line else 0
    wait_for(line, works, seconds, lambda: said, every=1.0)


def _filled(query: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        query = query.replace(f"${name}", value)
    return query
