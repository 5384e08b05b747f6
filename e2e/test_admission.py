"""What the API server itself refuses, with nothing of Penstock running but the CRD."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.apiserver import ApiServer, api_server
from e2e.kube import Kube, KubectlError, Object, wait_for
from penstock.stream.resource import ContinuousStream

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parent.parent
CRD = ROOT / "crds" / "penstock.dev_continuousstreams.yaml"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
# A YAML block of the documentation that is a whole resource.
BLOCK = re.compile(r"^```yaml\n(apiVersion: penstock.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [(path.name, text) for path in DOCUMENTS for text in BLOCK.findall(path.read_text())]


@pytest.fixture(scope="module")
def kube() -> Iterator[Kube]:
    """A bare API server with the CRD in it."""
    with api_server() as server:
        yield with_crd(server)


def with_crd(server: ApiServer) -> Kube:
    """kubectl on the server's default namespace, once the CRD is served."""
    kube = Kube(server.kubectl, server.kubeconfig, "default")
    kube.run("apply", "-f", str(CRD))
    wait_for("the kind is served", lambda: _served(kube), 30)
    return kube


def _served(kube: Kube) -> bool:
    try:
        kube.run("get", "cstream")
    except KubectlError:
        return False
    return True


GOOD: Object = {
    "apiVersion": "penstock.dev/v1alpha1",
    "kind": "ContinuousStream",
    "metadata": {"name": "good"},
    "spec": {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["a"]}},
        "sink": {"kafka": {"bootstrapServers": "kafka:9092", "topic": "b"}},
        "trigger": {"continuous": {"checkpointInterval": "1s"}},
    },
}


def _spoiled(path: str, value: Any) -> Object:
    result = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    at = result
    for step in parents:
        at = at.setdefault(step, {})
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return result


BAD = [
    ("spec.source", ..., "spec.source: Required value"),
    ("spec.source", {}, "spec.source takes exactly one of: kafka, rate"),
    ("spec.source.rate", {}, "spec.source takes exactly one of: kafka, rate"),
    ("spec.source.kafka.topics", [], "spec.source.kafka.topics"),
    ("spec.source.kafka.topics", ["not a topic"], "spec.source.kafka.topics[0]"),
    ("spec.source.kafka.startingOffsets", "newest", "spec.source.kafka.startingOffsets"),
    ("spec.sink", ..., "spec.sink: Required value"),
    ("spec.sink", {}, "spec.sink takes exactly one of: kafka, console"),
    ("spec.trigger", {}, "spec.trigger takes exactly one of: continuous"),
    ("spec.trigger.continuous.checkpointInterval", "soon", "continuous.checkpointInterval"),
    ("spec.trigger.continuous.checkpointInterval", 5, "continuous.checkpointInterval"),
    ("spec.executor", {"cores": 0}, "spec.executor.cores"),
    ("spec.executor", {"minInstances": 3, "maxInstances": 2}, "minInstances cannot be above"),
    ("spec.driver", {"memory": "lots"}, "spec.driver.memory"),
    ("spec.checkpoint", {"volume": {"reclaimPolicy": "Recycle"}}, "volume.reclaimPolicy"),
    ("spec.sparkConf", {"spark.executor.cores": "2"}, "Penstock sets this conf itself"),
    ("spec.transfrom", {"sql": "SELECT 1"}, 'unknown field "spec.transfrom"'),
    ("spec.source.kafka.topic", "a", 'unknown field "spec.source.kafka.topic"'),
    ("metadata.name", "x" * 46, "at most 45 characters"),
]


@pytest.mark.parametrize(("path", "value", "expected"), BAD)
def test_a_bad_manifest_is_refused_with_the_field_named(
    kube: Kube, path: str, value: Any, expected: str
) -> None:
    """By the API server, before any code of ours runs."""
    with pytest.raises(KubectlError) as refused:
        kube.apply(_spoiled(path, value))
    assert expected in str(refused.value)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_stored_as_it_was_applied(kube: Kube, example: Path) -> None:
    """Nothing is defaulted or dropped, so GitOps tools see no drift."""
    assert "created" in kube.run("apply", "-f", str(example))
    for applied in yaml.safe_load_all(example.read_text()):
        stored = kube.get("cstream", applied["metadata"]["name"])
        assert stored is not None
        assert stored["spec"] == applied["spec"]
    assert "unchanged" in kube.run("apply", "-f", str(example))
    assert kube.run("apply", "--server-side", "--force-conflicts", "-f", str(example))


@pytest.mark.parametrize(("document", "text"), BLOCKS)
def test_every_resource_in_the_documentation_is_accepted(
    kube: Kube, document: str, text: str
) -> None:
    """As a server-side dry run with strict validation, and by the models."""
    kube.run("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
    ContinuousStream.model_validate(yaml.safe_load(text))


def test_the_documentation_shows_resources() -> None:
    """So that the test above cannot pass by finding none."""
    assert {document for document, _ in BLOCKS} >= {"README.md", "guide.md"}


def test_the_storage_class_cannot_be_changed(kube: Kube) -> None:
    """A volume claim's class is immutable; the refusal says what to do instead."""
    volume = "spec.checkpoint.volume"
    first = _spoiled(volume, {"storageClassName": "fast"})
    first["metadata"]["name"] = "classy"
    kube.apply(first)
    second = copy.deepcopy(first)
    second["spec"]["checkpoint"]["volume"]["storageClassName"] = "slow"
    with pytest.raises(KubectlError, match="storageClassName cannot be changed"):
        kube.apply(second)


def test_kubectl_explain_answers_for_a_deep_field(kube: Kube) -> None:
    """With a sentence and its unit."""
    text = kube.run("explain", "cstream.spec.trigger.continuous.checkpointInterval")
    assert "How often an epoch is committed" in text
