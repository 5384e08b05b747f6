"""Which running cluster is reused."""

import json
from pathlib import Path

import pytest

from testkit.cluster import clients, kind_cluster
from testkit.cluster.access import Cluster
from testkit.cluster.kind_config import kind_config
from testkit.engine import container_engine
from testkit.engine.container_engine import ContainerEngine
from testkit.errors import ClusterError
from testkit.images import node_image
from testkit.images.node_image import possible_node_images
from testkit.paths import CHECKOUT


def no_request() -> bool:
    raise AssertionError("a running cluster needs no registry")


def found(nodes: tuple[str, ...]) -> Cluster:
    return Cluster(kind_cluster.NAME, Path("config"), Path("kubectl"), Path("helm"), nodes)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The record of a healthy cluster, for a test to write; no engine and no registry to ask."""
    for module in (clients, container_engine, node_image):
        monkeypatch.setattr(module, "registry_is_reachable", no_request)
    monkeypatch.setattr(kind_cluster, "cache_dir", lambda *_: tmp_path)
    monkeypatch.setattr(kind_cluster, "_healthy", lambda _: True)
    monkeypatch.setattr(kind_cluster, "_boot", lambda: "this boot")
    return tmp_path / "state.json"


def record(file: Path, image: str, boot: str = "this boot") -> None:
    client = file.with_name("client")
    client.touch()
    state = {"kubectl": str(client), "helm": str(client), "nodes": ["one"], "boot": boot}
    file.write_text(json.dumps({**state, "key": kind_cluster._key(image)}))


@pytest.mark.parametrize("image", possible_node_images())
def test_a_running_cluster_is_kept_when_the_registry_comes_or_goes(
    image: str, recorded: Path
) -> None:
    record(recorded, image)
    assert kind_cluster.ensure_cluster().nodes == ("one",)


@pytest.mark.parametrize(
    ("image", "boot"), [("another:image", "this boot"), (possible_node_images()[1], "another boot")]
)
def test_a_cluster_of_another_image_or_boot_is_replaced(
    image: str, boot: str, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(recorded, image, boot)
    monkeypatch.setattr(kind_cluster, "ensure_node_image", lambda: "new:image")
    monkeypatch.setattr(kind_cluster, "_remove", lambda: None)
    monkeypatch.setattr(kind_cluster, "_create", lambda _, image: found((image,)))
    assert kind_cluster.ensure_cluster().nodes == ("new:image",)


def test_a_cluster_is_recognized_from_another_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in its key is a path of the checkout that made it."""
    configs: list[str] = []

    def recorded(nodes: int, resolver: Path, shared: Path) -> str:
        configs.append(kind_config(nodes, resolver, shared))
        return configs[-1]

    monkeypatch.setattr(kind_cluster, "kind_config", recorded)
    kind_cluster._key("any")
    assert len(configs) == 1
    assert str(CHECKOUT) not in configs[0]


def test_a_cluster_that_cannot_be_removed_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, recorded: Path
) -> None:
    """As when docker does not answer: its containers run on, and the record still finds them."""

    def fail(*_: object, **__: object) -> str:
        raise ClusterError("docker does not answer")

    record(recorded, "any")
    config = recorded.with_name("kind.yaml")
    config.touch()
    monkeypatch.setattr(kind_cluster, "engine", lambda: ContainerEngine("docker"))
    monkeypatch.setattr(kind_cluster, "_kind", fail)
    with pytest.raises(ClusterError, match="docker does not answer"):
        kind_cluster._remove()
    assert recorded.exists()
    monkeypatch.setattr(kind_cluster, "_kind", lambda *_, **__: "")
    kind_cluster._remove()
    assert not recorded.exists()
    assert not config.exists()


def test_rootless_podman_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, recorded: Path
) -> None:
    """The demo and the tests reach the nodes' addresses from this machine."""
    monkeypatch.setattr(kind_cluster, "engine", lambda: ContainerEngine("podman"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="without root"):
        kind_cluster.ensure_cluster()
