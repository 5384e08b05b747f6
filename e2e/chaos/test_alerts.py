"""Faults that last are made on the cluster: their alerts fire, and are resolved after recovery.

The fault table of test_recovery.py makes the others.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from e2e.chaos.alerting import Alerting
from e2e.chaos.faults import firewall_rules
from e2e.chaos.on_call import PersonOnCall
from penstock.driver.background_threads import repeat_in_background
from testkit.cluster.access import Cluster
from testkit.cluster.install import CLUSTER_ROLE, Installation
from testkit.cluster.stream import KIND, Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kubernetes.kubectl import Kube, Object
from testkit.operations.prometheus import FiredAlert
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import kafka_to_kafka

pytestmark = [pytest.mark.timeout(1200), pytest.mark.full]

# A slow record takes seconds: fewer than a stall.
SLOW_SQL = """
SELECT key,
       CASE WHEN CAST(key AS STRING) = 'slow'
            THEN CAST(java_method('java.lang.Thread', 'sleep', 4000L) AS BINARY)
            ELSE value END AS value
FROM source
"""
QUICK_SQL = "SELECT key, value FROM source"
INVALID_SQL = "SELECT key, value FROM source ORDER BY key"
HOUR_MS = 3_600_000
ROOM = "test.penstock.dev/room"
MEBIBYTES = 64
METRICS_PORT = 8091


@pytest.fixture
def small_volume(installation: Installation, kube: Kube) -> Iterator[str]:
    """A folder of the node, nearly full, which is the checkpoint's volume of the stream `slow`."""
    cluster = installation.cluster
    node, folder = cluster.nodes[0], f"/var/{kube.namespace}"
    size = f"size={MEBIBYTES}m,mode=0777"
    _bash(cluster, f"mkdir {folder} && mount -t tmpfs -o {size} tmpfs {folder}")
    _bash(cluster, f"head -c {MEBIBYTES * 9 // 10}M /dev/zero > {folder}/ballast")
    common = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
    }
    of_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": kube.namespace},
            "spec": {
                **common,
                "capacity": {"storage": f"{MEBIBYTES}Mi"},
                "local": {"path": folder},  # the kubelet measures no hostPath
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [of_node]}]}
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "slow-checkpoint"},
            "spec": {
                **common,
                "volumeName": kube.namespace,
                "resources": {"requests": {"storage": f"{MEBIBYTES}Mi"}},
            },
        },
    )
    yield folder
    kube.delete(KIND, "slow")
    kube.delete("pvc", "slow-checkpoint")
    kube.delete("pv", kube.namespace)
    _bash(cluster, f"umount {folder} && rmdir {folder}")


@pytest.mark.proves("metrics.md#alerts")
def test_an_alert_fires_for_each_fault_and_is_resolved(
    installation: Installation,
    kube: Kube,
    topic: str,
    small_volume: str,
    alerts: Alerting,
    record_figure: RecordFigure,
) -> None:
    """Two streams have several faults at once."""
    cluster, external = installation.cluster, installation.kafka.external
    source, sink = f"{topic}-in", f"{topic}-out"
    create_topics(external, {source: 1, sink: 1})
    slow, crowded = Stream(kube, "slow"), Stream(kube, "crowded")
    created = began = time.time()

    def fires(name: str, stream: Stream) -> FiredAlert:
        found = alerts.wait_fired(name, created, namespace=kube.namespace, name=stream.name)
        record_figure(f"{name}: seconds until it fired", max(0.0, found.fired - began))
        return found

    def ends(*fired: FiredAlert) -> None:
        for alert in fired:
            over = alerts.wait_resolved(alert)
            assert over.resolved is not None
            record_figure(f"{alert.name}: seconds that it fired", over.resolved - over.fired)

    kube.apply(
        small_stream(
            slow.name,
            kafka_to_kafka(
                installation.kafka.internal,
                source,
                sink,
                transform={"sql": SLOW_SQL},
                checkpoint={"volume": {"adopt": True, "size": f"{MEBIBYTES}Mi"}},
                executor=_executor(),
            ),
        ),
        small_stream(
            crowded.name,
            {
                "source": {"rate": {"rowsPerSecond": 1, "numPartitions": 1}},
                "sink": {"console": {}},
                "trigger": {"microBatch": {}},
                "executor": _executor({"nodeSelector": {ROOM: "yes"}}),
            },
        ),
    )
    slow.wait_ready()
    began = time.time()
    slow.edit(transform={"sql": INVALID_SQL})
    with _old_slow_records(external, source):
        of_crowded = [fires("PenstockStreamCoresShort", crowded)]
        of_slow = [
            fires("PenstockStreamStalled", slow),
            fires("PenstockStreamLagGrowing", slow),
            fires("PenstockStreamReplayWindowLong", slow),
            fires("PenstockCheckpointVolumeFilling", slow),
        ]
    person = PersonOnCall(installation, slow, alerts)
    for alert in (*of_crowded, *of_slow):
        person.follow_runbook(alert)
    assert "UnsupportedOperation: The newest spec is not applied" in person.ask_doctor()
    another = PersonOnCall(installation, crowded, alerts)
    assert "Unschedulable: The pod crowded-exec-1 waits: " in another.ask_doctor()

    slow.edit(transform={"sql": QUICK_SQL})
    _bash(cluster, f"rm {small_volume}/ballast")
    with _room(kube, cluster.nodes[0]):
        crowded.wait_ready()
    ends(*of_crowded)
    began = time.time()
    with _metrics_blocked(cluster, crowded), _right_removed(kube):
        # Nothing is read for a stream that is as it should be, for some minutes.
        crowded.edit(trigger={"microBatch": {"interval": "2s"}})
        of_crowded = [
            fires("PenstockDriverMetricsAbsent", crowded),
            fires("PenstockReconcileFailing", crowded),
        ]
        for alert in of_crowded:
            another.follow_runbook(alert)
        assert "OperatorRightsMissing: The operator may not: " in another.ask_doctor()
    ends(*of_crowded, *of_slow)


def _executor(pod_spec: Object | None = None) -> Object:
    template = {"podTemplate": {"spec": pod_spec}} if pod_spec else {}
    requests = {"cpu": "100m", "memory": "896Mi"}
    return {"cores": 1, "resources": {"requests": requests}, **template}


def _old_slow_records(bootstrap: str, topic: str) -> AbstractContextManager[None]:
    """During the block come records that have waited for an hour, by their timestamps.

    One a second, so that each epoch has one. How long it takes until the alerts fire depends on how
    long the stream was fast before.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 3})

    def send() -> None:
        then = int(time.time() * 1000) - HOUR_MS
        producer.produce(topic, key="slow", value="record", timestamp=then)
        assert producer.flush(30) == 0

    return repeat_in_background(send, 1.0)


@contextlib.contextmanager
def _room(kube: Kube, node: str) -> Iterator[None]:
    """The node has the label that the executors ask for."""
    kube.run("label", "node", node, f"{ROOM}=yes")
    try:
        yield
    finally:
        kube.run("label", "node", node, f"{ROOM}-")


def _metrics_blocked(cluster: Cluster, stream: Stream) -> AbstractContextManager[None]:
    """Nobody reaches the metrics of a driver."""
    pod = stream.kube.get("pod", stream.driver_pod)
    assert pod is not None
    address = pod["status"]["podIP"]
    return firewall_rules(cluster, f"OUTPUT -d {address} -p tcp --dport {METRICS_PORT} -j REJECT")


@contextlib.contextmanager
def _right_removed(kube: Kube) -> Iterator[None]:
    """The operator may not read ConfigMaps."""
    everywhere = replace(kube, namespace="")
    role = everywhere.get("clusterrole", CLUSTER_ROLE)
    assert role is not None

    def put(rules: list[Object]) -> None:
        patch = json.dumps({"rules": rules})
        everywhere.run("patch", "clusterrole", CLUSTER_ROLE, "--type=merge", "-p", patch)

    put([rule for rule in role["rules"] if "configmaps" not in rule["resources"]])
    try:
        yield
    finally:
        put(role["rules"])


def _bash(cluster: Cluster, script: str) -> str:
    return cluster.on_node(cluster.nodes[0], "bash", "-c", script)
