"""What somebody has changed by hand, and no apply of the stream's objects restores. Pure."""

from __future__ import annotations

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Object
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
    if not pod.revision and owner.update_revision and pod.spec_hash == owner.spec_hash:
        labels = {**labels, LABEL_REVISION: owner.update_revision}
    if labels.items() <= pod.labels.items():
        return ()
    meta = {"name": pod.name, "namespace": pod.namespace, "labels": dict(labels)}
    return ({"apiVersion": kinds.POD.api_version, "kind": kinds.POD.kind, "metadata": meta},)


def is_altered(manifest: Manifest, found: Object) -> bool:
    """Whether somebody made a ConfigMap again with another content, which nobody can change."""
    if found.kind is not kinds.CONFIG_MAP or found.terminating:
        return False
    there = found.manifest
    return there.get("immutable") is True and there.get("data") != manifest["data"]
