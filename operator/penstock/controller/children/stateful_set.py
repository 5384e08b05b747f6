"""Builder of the driver's StatefulSet. Pure."""

from __future__ import annotations

from penstock.api import group_version
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Claim, StatefulSet
from penstock.contract import naming
from penstock.contract.pod_merge import merge_pod_template
from penstock.controller.children.checkpoint_claim import first_start
from penstock.controller.children.diff import content_hash
from penstock.controller.children.driver_pod import driver_pod
from penstock.controller.children.revision import Revision, labels, metadata

# The hash of the pod template as an operator has built it. The server adds defaults to it.
_ANNOTATION_TEMPLATE = f"{group_version.GROUP}/template"


def driver_stateful_set(
    desired: Revision, claim: Claim | None = None, *, has_finished: bool = False
) -> Manifest:
    """The StatefulSet that runs at most one driver, even if a node is lost; none if it is
    suspended, or if its query `has_finished` and the driver is not to stay.

    `claim` is the claim of the checkpoint if it exists.

    Under the policy OrderedReady the StatefulSet controller would wait for a broken pod to become
    ready before it replaces it, which is forever. Hence Parallel.
    """
    name = naming.driver_name(desired.name)
    spec = desired.stream.spec
    template = merge_pod_template(spec.driver.pod_template, driver_pod(desired, claim))
    annotations = {_ANNOTATION_TEMPLATE: content_hash(template)[:16]}
    if has_finished and not spec.suspend:
        annotations[naming.ANNOTATION_FINISHED] = "true"
    if desired.checkpoint_location:  # else the claim, which lives longer, says it
        annotations |= first_start(desired)
    return {
        "apiVersion": kinds.STATEFUL_SET.api_version,
        "kind": kinds.STATEFUL_SET.kind,
        "metadata": {**metadata(desired, name), "annotations": annotations},
        "spec": {
            "replicas": 0 if spec.suspend or has_finished else 1,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": labels(desired)},
            "template": template,
        },
    }


def is_of_another_operator(built: Manifest, observed: StatefulSet) -> bool:
    """Whether another version of the operator, or one with other settings, has applied it.

    Then the pod template stays while the pod runs: an upgrade of the operator restarts no driver. A
    new hash, a new StatefulSet or a new pod gets this version's template.
    """
    ours = StatefulSet(built)
    theirs = observed.annotations.get(_ANNOTATION_TEMPLATE)
    is_another = theirs not in (None, ours.annotations[_ANNOTATION_TEMPLATE])
    return ours.pod_hash == observed.pod_hash and is_another


def with_template_of(built: Manifest, observed: StatefulSet) -> Manifest:
    """The StatefulSet with the pod template that runs; the rest of it is still looked after."""
    theirs = {_ANNOTATION_TEMPLATE: observed.annotations[_ANNOTATION_TEMPLATE]}
    meta = built["metadata"]
    return {
        **built,
        "metadata": {**meta, "annotations": {**meta["annotations"], **theirs}},
        "spec": {**built["spec"], "template": observed.template},
    }


def scaled_to_zero(observed: StatefulSet) -> Manifest:
    """The StatefulSet as it is, but without a driver: for a stream whose spec cannot be applied."""
    meta = observed.manifest["metadata"]
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    return {
        "apiVersion": kinds.STATEFUL_SET.api_version,
        "kind": kinds.STATEFUL_SET.kind,
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {**observed.manifest["spec"], "replicas": 0},
    }
