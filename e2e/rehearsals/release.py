"""A release is published to a registry and installed from there, as users would do both.

`make test-all` runs it; `make test` does not, because pushing and pulling Spark's image
takes minutes.
"""

from __future__ import annotations

import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from demo.payments import EXAMPLE, SINK, SOURCE, payment, to_flag
from penstock import __version__
from scripts import release
from testkit.cluster.access import Cluster
from testkit.cluster.install import NAMESPACE, OPERATOR, RELEASE, upgrade
from testkit.cluster.kafka import ensure_kafka
from testkit.cluster.load_images import ensure_images
from testkit.cluster.registry import running_registry
from testkit.cluster.stream import KIND, Stream
from testkit.commands import run
from testkit.kafka.topic_admin import create_topics, delete_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT

pytestmark = pytest.mark.timeout(1800)


@dataclass(frozen=True)
class Published:
    """A release in a registry, as a user sees it."""

    registry: str
    """As the node reaches it."""
    chart: str
    """The chart's address, as this machine reaches it."""


@pytest.fixture(scope="module")
def published(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """Images and chart of this checkout in a registry."""
    with running_registry(cluster, tmp_path_factory.mktemp("registry")) as registry:
        here, there = f"{registry.from_here}/penstock", f"{registry.from_the_node}/penstock"
        release.build_images(here)
        release.push_images(here, plain_http=True)
        chart = release.push_chart(here, images=there, plain_http=True)
        yield Published(there, chart.partition("@")[0])


@pytest.fixture(scope="module")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `penstock` of the release's wheel, in an environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = release.build_wheel(folder)
    venv.create(folder / "venv", with_pip=True)
    pip, constraints = folder / "venv" / "bin" / "pip", CHECKOUT / "constraints.txt"
    run([pip, "install", "--quiet", f"{wheel}[client]", "--constraint", constraints], timeout=600)
    return folder / "venv" / "bin" / "penstock"


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Kube]:
    kube = cluster.kube("released")
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "released"}})
    yield kube
    kube.delete(KIND, "fraud-flags")
    kube.run("delete", "namespace", "released", "--wait=false")


def uid_and_image(stream: Stream) -> tuple[str, str]:
    pod = stream.kube.get("pod", stream.driver_pod)
    assert pod is not None
    return pod["metadata"]["uid"], pod["spec"]["containers"][0]["image"]


def test_a_stream_runs_from_a_release_and_through_the_upgrade_from_it(
    cluster: Cluster, published: Published, penstock: Path, kube: Kube, tmp_path: Path
) -> None:
    """Chart, images and command are those of the release; the upgrade restarts no driver."""
    cluster.run_helm(NAMESPACE, "uninstall", RELEASE, "--ignore-not-found", "--wait")
    words = ["install", RELEASE, published.chart, "--version", __version__, "--create-namespace"]
    cluster.run_helm(NAMESPACE, *words, "--plain-http", "--wait", "--timeout=240s")
    operator = cluster.kube(NAMESPACE).get("deployment", OPERATOR)
    assert operator is not None
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{published.registry}/operator:{__version__}"

    kafka = ensure_kafka(cluster)
    delete_topics(kafka.external, SOURCE, SINK)
    create_topics(kafka.external, {SOURCE: 2, SINK: 1})
    with Receiver(kafka.external, SINK) as flags:
        run([penstock, "validate", EXAMPLE], cwd=tmp_path)
        stream = Stream(kube, yaml.safe_load(EXAMPLE.read_text())["metadata"]["name"])
        kube.run("apply", "-f", EXAMPLE)
        stream.wait_ready()
        with Sender(kafka.external, SOURCE, 100, 1000, payment) as payments:
            before = uid_and_image(stream)
            assert before[1] == f"{published.registry}/spark:{__version__}"
            operator_image = ensure_images(["operator"], cluster)["operator"]
            upgrade(cluster, operator_image, f"{published.registry}/spark:{__version__}")
            payments.wait_until_sent(1000)
        flags.wait_for_all(to_flag(1000), 60)
    assert uid_and_image(stream) == before
    kubeconfig = {"KUBECONFIG": str(cluster.kubeconfig)}
    said = run([penstock, "status", stream.name, "-n", "released"], cwd=tmp_path, env=kubeconfig)
    assert "Running" in said
