"""The API server that stands alone is the real one."""

import pytest

from testkit.commands import run
from testkit.kubernetes.api_server import ApiServer, api_server

pytestmark = pytest.mark.real


def _kubectl(server: ApiServer, *words: str) -> str:
    return run([server.kubectl, "--kubeconfig", server.kubeconfig, *words])


def test_it_answers_with_server_side_apply_and_cleans_up() -> None:
    with api_server() as server:
        folder = server.kubeconfig.parent
        _kubectl(server, "create", "namespace", "one")
        _kubectl(server, "-n", "one", "create", "configmap", "settings", "--from-literal=a=b")
        said = _kubectl(server, "-n", "one", "get", "configmap", "settings", "-ojsonpath={.data.a}")
        assert said == "b"
    assert not folder.exists()
