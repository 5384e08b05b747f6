"""A node is drained, and then the next one is lost for good; no record is lost.

The checkpoint is on a volume that both nodes reach, as on a file server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.chaos.alerting import Alerting
from e2e.chaos.faults import QUICK_EVICTION, Target, wait_for_another_driver
from e2e.chaos.observers import commits_on_node
from e2e.chaos.on_call import PersonOnCall
from testkit.cluster.install import Installation
from testkit.cluster.kind_config import SHARED_VOLUMES
from testkit.cluster.stream import Stopwatch, Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube, Object
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import kafka_to_kafka
from testkit.wait import wait_for

pytestmark = [pytest.mark.timeout(1500), pytest.mark.full]

PER_SECOND = 50
PARTITIONS = 2
PATIENCE_SECONDS = 240.0


@pytest.fixture
def shared_claim(installation: Installation, kube: Kube) -> Iterator[str]:
    """The name of a stream for which there is a claim on a volume that every node reaches."""
    stream, volume = "wanderer", f"{kube.namespace}-shared"
    folder = f"{SHARED_VOLUMES}/{kube.namespace}"
    installation.cluster.on_node(installation.cluster.nodes[0], "mkdir", "-m", "0777", folder)
    shared = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "hostPath": {"path": folder},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"{stream}-checkpoint"},
            "spec": shared,
        },
    )
    yield stream
    kube.delete("pv", volume, "--wait=false")


@pytest.mark.proves("failures.md#the-drivers-pod-is-force-deleted-and-its-process-still-runs")
def test_a_stream_moves_from_a_drained_node_and_from_a_lost_one(
    installation: Installation,
    kube: Kube,
    topic: str,
    spare_node: str,
    shared_claim: str,
    tmp_path: Path,
    alerts: Alerting,
    record_figure: RecordFigure,
) -> None:
    """The driver of the lost node ends by itself, and only then the next one writes."""
    external = installation.kafka.external
    source, sink = f"{topic}-in", f"{topic}-out"
    create_topics(external, {source: PARTITIONS, sink: PARTITIONS})
    stream = Stream(kube, shared_claim)
    spec = kafka_to_kafka(
        installation.kafka.internal,
        source,
        sink,
        checkpoint={"volume": {"adopt": True}},
        driver={
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
            "podTemplate": {"spec": {"tolerations": QUICK_EVICTION}},
        },
    )
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    with (
        commits_on_node(installation.cluster, stream, tmp_path / "checkpoint") as commits,
        Receiver(external, sink) as out,
        Sender(external, source, PER_SECOND, PER_SECOND * 900) as numbers,
    ):
        target = Target(installation, stream, spec, source, out)

        def flows(watch: Stopwatch, what: str) -> None:
            target.wait_until_flows(numbers, what, PATIENCE_SECONDS)
            record_figure(f"seconds {what}", watch.seconds)
            record_figure(f"duplicates {what}", out.arrivals.duplicates)

        flows(Stopwatch(), "until the first records flow")
        watch = Stopwatch()
        _drain(installation, stream, to=spare_node)
        flows(watch, "until it flows on the other node")
        lost = target.driver()
        assert [pod["spec"]["nodeName"] for pod in (lost, target.executor())] == [spare_node] * 2
        stream.wait_ready()
        kube.run("uncordon", target.node)
        kube.run("cordon", spare_node)

        watch, began = Stopwatch(), time.time()
        installation.cluster.on_node(spare_node, "systemctl", "stop", "kubelet")
        stream.wait_for("its node named", lambda: _is_stuck_on(stream, spare_node), 240)
        record_figure("seconds until the lost node is named", watch.seconds)
        fired = alerts.wait_fired(
            "PenstockStreamNotReady", began, namespace=kube.namespace, name=stream.name
        )
        answer = PersonOnCall(installation, stream, alerts).ask_doctor()
        record_figure("doctor about the lost node", answer)
        assert f": DriverNodeUnreachable: The node {spare_node} of " in answer
        flows(Stopwatch(), "through the driver that Kubernetes has lost")

        watch = Stopwatch()
        taint = stream.condition("Ready")["message"].split("`")[1].split()
        assert taint.pop(0) == "kubectl"
        kube.run(*taint)
        wait_for_another_driver(target, lost["metadata"]["uid"])
        wait_for("the end of the lost driver", lambda: _has_ended(target, lost), 120)
        record_figure("seconds until the lost driver ended by itself", watch.seconds)
        flows(watch, "after the lost node was given up")
        stream.wait_ready()
        alerts.wait_resolved(fired)
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
    replays = commits.replays_of_committed(source, numbers.places, out.arrivals.copies)
    record_figure("records sent", sent)
    record_figure("committed records written again", len(replays))
    assert replays == []


def _drain(installation: Installation, stream: Stream, to: str) -> None:
    """Drains the first node as an administrator would, but only of the stream's pods."""
    kube, first = installation.cluster.kube(), installation.cluster.nodes[0]
    kube.run("uncordon", to)
    kube.run(
        "drain", first, f"--pod-selector={stream.selector}", "--delete-emptydir-data",
        "--timeout=120s", timeout=130,
    )  # fmt: skip


def _is_stuck_on(stream: Stream, node: str) -> bool:
    ready = stream.condition("Ready")
    stuck = (ready.get("status"), ready.get("reason")) == ("False", "DriverNodeUnreachable")
    return stuck and node in ready["message"]


def _has_ended(target: Target, lost: Object) -> bool:
    return not target.jvm(lost, "echo runs").strip()
