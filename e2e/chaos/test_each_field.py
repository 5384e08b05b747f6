"""An edit of each field of the spec: what restarts is what the field's class says.

Where no query can run, as with a broker that is not there, it is the pod.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from penstock.api.v1alpha1.restarts_by_field import Change
from penstock.cluster.objects import Object
from penstock.contract import naming
from penstock.contract.edit_effects import change_of_edit, edited_fields
from testkit.cluster.install import Installation
from testkit.cluster.stream import KIND, Stopwatch, Stream, small_stream
from testkit.errors import KubectlError
from testkit.kafka.topic_admin import create_topics
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.figures import RecordFigure
from testkit.streams import edits
from testkit.streams.edits import Walk, walks
from testkit.streams.examples import compiled

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

WAIT_SECONDS = 180.0
# By then the driver has read the edit.
LIVE_SECONDS = 5.0
NAMES = [walk.name for walk in walks("", "")]


@dataclass(frozen=True)
class Seen:
    """What would be another one if something had restarted."""

    pod: str
    """Of the driver; empty if there is none."""
    pod_hash: str
    processes: int
    """How often the driver's process has restarted in its pod."""
    executors: frozenset[str]
    queries: int
    """How many have begun in the driver's process."""


def look(stream: Stream) -> Seen:
    pods = [pod for pod in stream.pods() if pod["metadata"]["name"] == stream.driver_pod]
    log = ""
    with contextlib.suppress(KubectlError):  # there is none before the container has started
        log = stream.kube.run("logs", stream.driver_pod) if pods else ""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    uids = [pod["metadata"]["uid"] for pod in pods]
    executors = map(Object, stream.executors())  # those of the pod before may be there for a while
    return Seen(
        "".join(uids),
        "".join(pod["metadata"]["annotations"][naming.ANNOTATION_POD_HASH] for pod in pods),
        stream.container_restarts(),
        frozenset(pod.uid for pod in executors if any(map(pod.is_owned_by, uids))),
        sum(line.get("step") == "start_query" for line in lines),
    )


def restarted(before: Seen, after: Seen) -> Change | str:
    if before.pod != after.pod:
        return Change.POD if before.pod and after.pod else Change.STOP
    if before.processes != after.processes:
        return "process"
    if not before.executors <= after.executors:
        return "executors"
    return Change.LIVE if before.queries == after.queries else Change.QUERY


@pytest.fixture(scope="module")
def named(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the edits name."""
    value = base64.b64encode(b"x").decode()
    jar = compiled(tmp_path_factory.mktemp("jar"), edits.EXAMPLE, **edits.CLASSES)
    kube.apply({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": edits.JAR},
        "binaryData": {edits.JAR: base64.b64encode(jar.read_bytes()).decode()},
    })  # fmt: skip
    kube.apply({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": edits.SERVICE_ACCOUNT},
    })  # fmt: skip
    kube.apply({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": edits.STORAGE_CLASS},
        "provisioner": "kubernetes.io/host-path", "allowVolumeExpansion": True,
    })  # fmt: skip
    for name in edits.SECRETS:
        keys = (*edits.SECRET_KEYS, "tls.crt", "tls.key")
        kube.apply({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "data": dict.fromkeys(keys, value),
        })  # fmt: skip
    for name in edits.CONFIG_MAPS:
        kube.apply({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": dict.fromkeys(edits.MODULE_KEYS, edits.PYTHON),
        })  # fmt: skip


@pytest.fixture
def walk(
    request: pytest.FixtureRequest, installation: Installation, topic: str, named: None
) -> Walk:
    create_topics(installation.kafka.external, dict.fromkeys(edits.topics(topic), 1))
    every = walks(installation.kafka.internal, topic)
    return next(walk for walk in every if walk.name == request.param)


@pytest.fixture
def stream(walk: Walk, kube: Kube) -> Iterator[Stream]:
    """A stream of the walk's spec, which runs if one can."""
    document = small_stream(f"walk-{NAMES.index(walk.name)}", {})
    document["spec"] = edits.merged(document["spec"], walk.spec)
    started = Stream(kube, document["metadata"]["name"])
    kube.apply(document)
    try:
        if walk.runs:
            started.wait_ready()
        else:
            started.wait_for("a driver", lambda: look(started).pod, WAIT_SECONDS)
        yield started
    finally:
        kube.delete(KIND, started.name)


@pytest.mark.proves("operate.md#edit")
@pytest.mark.parametrize("walk", NAMES, indirect=True)
def test_what_restarts_is_what_the_class_says(
    walk: Walk, stream: Stream, record_figure: RecordFigure
) -> None:
    wrong = []
    seen = look(stream)
    for edit, old, new in walk.steps():
        fields = ", ".join(".".join(path) for path in edited_fields(old, new))
        announced, clock = change_of_edit(old, new), Stopwatch()
        before = look(stream)
        assert restarted(seen, before) is Change.LIVE, f"something restarted before {fields}"
        if announced is Change.REFUSED:
            with pytest.raises(KubectlError, match="cannot be changed"):
                stream.edit(**edit)
            record_figure(fields, "refused")
            continue
        stream.edit(**edit)
        if new.get("suspend"):
            stream.wait_for("no driver", lambda: not stream.pods(), WAIT_SECONDS)
        elif walk.runs:
            stream.wait_for(f"Ready with {edit}", stream.is_ready, WAIT_SECONDS)
            if announced is Change.LIVE:
                time.sleep(LIVE_SECONDS)
        else:
            stream.wait_for(
                "another pod",
                lambda: look(stream).pod_hash not in ("", before.pod_hash),  # noqa: B023
                WAIT_SECONDS,
            )
        seen = look(stream)
        happened = restarted(before, seen)
        record_figure(fields, f"announced {announced}, happened {happened}, {clock.seconds:.0f} s")
        if happened != announced:
            wrong.append((fields, announced, happened))
    assert wrong == []
