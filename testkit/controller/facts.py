"""What `penstock status` and `penstock doctor` would read from the cluster in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from penstock import __version__
from penstock.client.cluster_facts import ClusterFacts, OperatorFacts, StreamFacts, with_objects
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Claim, Event, Lease, Node, Object, StatefulSet
from penstock.cluster.pods import Pod
from penstock.cluster.stream import Stream
from penstock.contract import naming
from testkit.controller.fake_cluster import KEY, FakeCluster

NODE = "node-1"


def facts_of(cluster: FakeCluster, **changes: Any) -> ClusterFacts:
    """The facts, with an operator that runs. Keywords replace facts of the cluster."""
    events = [*cluster.api.events, *cluster.api.cluster_events]
    streams = with_objects(
        [Stream(cluster.stream)],
        map(StatefulSet, cluster.api.of_kind(kinds.STATEFUL_SET)),
        map(Claim, cluster.api.of_kind(kinds.CLAIM)),
        map(Pod, cluster.api.of_kind(kinds.POD)),
        [(KEY.namespace, Event.parse(each)) for each in events],
    )
    facts = ClusterFacts(cluster.clock(), tuple(streams), operators=(operator(),), stream_count=1)
    return replace(facts, **changes)


def with_stream(facts: ClusterFacts, **changes: Any) -> ClusterFacts:
    """The facts with changes of their only stream."""
    (stream,) = facts.streams
    changed: StreamFacts = replace(stream, **changes)
    return replace(facts, streams=(changed,))


def operator(
    *,
    ready: bool = True,
    version: str = __version__,
    pods: tuple[Pod, ...] = (),
    lease: Lease | None = None,
    **settings: Any,
) -> OperatorFacts:
    """The operator's deployment as the chart installs it. The settings have the file's names."""
    written = yaml.safe_dump({"sparkImage": "an:image", **settings})
    deployment = {
        "metadata": {
            "name": "penstock-operator",
            "namespace": "penstock",
            "labels": {"app.kubernetes.io/version": version},
        },
        "spec": {
            "template": {
                "metadata": {"annotations": {naming.ANNOTATION_SETTINGS: written}},
                "spec": {
                    "serviceAccountName": "penstock-operator",
                    "containers": [{"name": "operator", "args": ["operator", "--lease=penstock"]}],
                },
            }
        },
        "status": {"readyReplicas": int(ready)},
    }
    return OperatorFacts(Object(deployment), pods, lease)


def node(*, ready: bool = True) -> Node:
    message = "kubelet is posting ready status" if ready else "Kubelet stopped posting node status."
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", "message": message}
    return Node({"metadata": {"name": NODE}, "status": {"conditions": [condition]}})


def warning(about: Manifest, reason: str, note: str, time: str) -> Manifest:
    meta = about["metadata"]
    return {
        "metadata": {"name": f"{meta['name']}.{reason}", "creationTimestamp": time},
        "type": "Warning",
        "reason": reason,
        "note": note,
        "regarding": {"kind": about["kind"], "name": meta["name"], "uid": meta["uid"]},
    }
