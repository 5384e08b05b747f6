"""What the API server itself refuses, with nothing of Penstock running but the CRD."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.api.reserved_spark_conf import OWNED_CONFS
from penstock.api.v1alpha1.stream import ContinuousStream
from testkit.kubernetes.api_server import ApiServer, api_server
from testkit.kubernetes.kubectl import Kube, KubectlError, Object, wait_for
from testkit.paths import CHECKOUT
from testkit.streams.bad_manifests import GOOD, RING_1, RING_2, Bad
from testkit.streams.crd_schema import nodes, schema
from testkit.streams.every_field import WIDE
from testkit.streams.specs import changed

pytestmark = pytest.mark.real

ROOT = CHECKOUT
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


def stream(name: str, spec: Object) -> Object:
    """A whole resource."""
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "ContinuousStream",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize("bad", RING_1, ids=str)
def test_a_bad_manifest_is_refused_at_apply(kube: Kube, bad: Bad) -> None:
    """With the field, the reason and the remedy, before any code of ours runs."""
    with pytest.raises(KubectlError) as refused:
        kube.apply(stream("bad", bad.spec))
    said = str(refused.value)
    # An unknown field is named alone, without "spec." before what it stands in.
    assert bad.at in said
    assert (bad.ring1 or bad.says) in said


@pytest.mark.parametrize("bad", RING_2, ids=str)
def test_what_needs_more_than_the_schema_is_left_to_the_operator(kube: Kube, bad: Bad) -> None:
    """Ring 2 is the earliest that can refuse these (unit/validation/test_bad_manifests.py)."""
    kube.run("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(stream("late", bad.spec)))


@pytest.mark.parametrize("conf", OWNED_CONFS)
def test_a_conf_that_penstock_owns_is_refused_at_apply(kube: Kube, conf: str) -> None:
    """It alone is named, with what to use instead, whatever stands beside it."""
    spec = changed(GOOD, "sparkConf", {"spark.sql.session.timeZone": "UTC", conf: "x"})
    with pytest.raises(KubectlError) as refused:
        kube.apply(stream("bad", spec))
    said = str(refused.value)
    assert f"{conf} cannot be set here, Penstock sets it itself: {OWNED_CONFS[conf]}" in said
    assert sum(f"{each} cannot" in said for each in OWNED_CONFS) == 1


@pytest.mark.parametrize("name", ["x" * 46, "a.b"])
def test_a_name_that_its_pods_could_not_bear_is_refused(kube: Kube, name: str) -> None:
    """Pods are named after the stream."""
    with pytest.raises(KubectlError, match="at most 45 characters of a-z, 0-9 and -"):
        kube.apply(stream(name, GOOD))


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


def test_a_stream_with_every_field_is_stored_as_it_was_applied(kube: Kube) -> None:
    """Apply, fetch, diff is empty, client-side and server-side: nothing is defaulted or dropped."""
    for number, spec in enumerate(WIDE):
        ContinuousStream.model_validate(stream("wide", spec))
        text = yaml.safe_dump(stream(f"wide-{number}", spec))
        assert "created" in kube.run("apply", "-f", "-", stdin=text)
        assert kube.run("diff", "-f", "-", stdin=text) == ""
        stored = kube.get("cstream", f"wide-{number}")
        assert stored is not None
        assert stored["spec"] == spec
        forced = ("--server-side", "--force-conflicts")
        kube.run("apply", *forced, "-f", "-", stdin=text)
        assert kube.run("diff", *forced, "-f", "-", stdin=text) == ""
        again = kube.get("cstream", f"wide-{number}")
        assert again is not None
        assert again["metadata"]["generation"] == 1
        assert again["spec"] == spec


def test_the_storage_class_cannot_be_changed(kube: Kube) -> None:
    """A volume claim's class is immutable; the refusal says what to do instead."""
    volume = "checkpoint.volume"
    first = stream("classy", changed(GOOD, volume, {"storageClassName": "fast"}))
    kube.apply(first)
    second = copy.deepcopy(first)
    second["spec"]["checkpoint"]["volume"]["storageClassName"] = "slow"
    with pytest.raises(KubectlError, match="storageClassName cannot be changed"):
        kube.apply(second)


EXPLAINED = [
    ("spec.trigger.continuous.checkpointInterval", "A number and a unit: ms, s, m, h"),
    ("spec.trigger.microBatch.asyncProgress.checkpointInterval", "How often offsets and commits"),
    ("spec.trigger.realTime.batchDuration", "at least 5s"),
    ("spec.source.kafka.startingOffsetsByPartition", "-2 for the earliest or -1 for the latest"),
    ("spec.source.rate.rowsPerSecond", "Rows a second"),
    ("spec.executor.memory", "The JVM's heap"),
    ("spec.transform.functions.expression", "A Spark SQL expression over its parameters"),
    ("spec.sink.kafka.sasl.mechanism", "PLAIN sends the password as it is"),
    ("status.conditions.reason", "CamelCase"),
    ("status.lag", "Records between"),
]


@pytest.mark.parametrize(("field", "expected"), EXPLAINED)
def test_kubectl_explain_answers_for_a_field(kube: Kube, field: str, expected: str) -> None:
    """With a sentence and its unit."""
    text = " ".join(kube.run("explain", f"cstream.{field}").split())
    assert expected in text


def test_kubectl_explain_answers_for_every_field(kube: Kube) -> None:
    """One call lists all; that each has a sentence is in unit/api/test_crd.py."""
    text = kube.run("explain", "cstream", "--recursive")
    shown = set(re.findall(r"^ +(\w+)\t", text, re.MULTILINE))
    names = {
        path.rsplit(".", 1)[-1] for path, _ in nodes(schema()) if path[-2:] not in ("", "[]", "{}")
    }
    assert names - shown == set()
