"""What somebody has changed by hand, and no apply of the stream's objects restores. Pure."""

from __future__ import annotations

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.pods import LABEL_REVISION
from penstock.controller.observation import ObservedChildren


def labels_of_pod(children: ObservedChildren) -> tuple[Manifest, ...]:
    """The driver's pod with the labels by which its StatefulSet owns it, if it lacks any.

    Otherwise the StatefulSet lets it go, and can create no other of its name while it runs.
    """
    pod, owner = children.driver_pod, children.stateful_set
    if pod is None or owner is None or pod.terminating or owner.terminating:
        return ()
    labels = owner.selector
    if not pod.revision and owner.update_revision and pod.pod_hash == owner.pod_hash:
        labels = {**labels, LABEL_REVISION: owner.update_revision}
    if labels.items() <= pod.labels.items():
        return ()
    meta = {"name": pod.name, "namespace": pod.namespace, "labels": dict(labels)}
    return ({"apiVersion": kinds.POD.api_version, "kind": kinds.POD.kind, "metadata": meta},)
