"""What the release itself does: its own test, and the roles of its users."""

from __future__ import annotations

import contextlib

import pytest

from testkit.cluster.install import NAMESPACE, OPERATOR, RELEASE, Installation
from testkit.errors import KubectlError
from testkit.kubernetes.kubectl import Kube
from testkit.wait import wait_for


def test_the_release_passes_its_own_test(installation: Installation) -> None:
    """`helm test` runs `penstock doctor` in a pod of the operator's image."""
    cluster = installation.cluster
    cluster.run_helm(NAMESPACE, "test", RELEASE, "--timeout=180s")
    assert cluster.kube(NAMESPACE).get("pod", f"{OPERATOR}-test") is None


@pytest.mark.parametrize(("role", "reads", "writes"), [("view", True, False), ("edit", True, True)])
def test_the_roles_of_kubernetes_include_streams(
    kube: Kube, role: str, reads: bool, writes: bool
) -> None:
    """Kubernetes' own roles view and edit."""
    user = f"{kube.namespace}-{role}"
    assert _may(kube, user, "get") is False
    kube.run("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    # The API server learns of the binding by a watch.
    wait_for("the role in force", lambda: _may(kube, user, "get") is reads, 30)
    assert _may(kube, user, "create") is writes


def _may(kube: Kube, user: str, verb: str) -> bool:
    with contextlib.suppress(KubectlError):  # "no" is an exit code, too
        answer = kube.run("auth", "can-i", verb, "continuousstreams.penstock.dev", f"--as={user}")
        return answer.strip() == "yes"
    return False
