"""The stand-alone API server is a real one."""

from testkit.kubernetes.api_server import api_server


def test_it_stores_objects_and_is_removed_with_its_data() -> None:
    with api_server() as server:
        folder = server.kubeconfig.parent
        server.kube().run("create", "namespace", "one")
        kube = server.kube("one")
        kube.run("create", "configmap", "settings", "--from-literal=a=b")
        assert kube.run("get", "configmap", "settings", "-ojsonpath={.data.a}") == "b"
    assert not folder.exists()
