"""What Kubernetes says keeps an object from being as it should be. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.cluster.objects import Claim, Event, Object, StatefulSet, newest_warning
from penstock.cluster.pods import Pod

# What the clocks of the cluster's components may differ by.
_CLOCK_SLACK = timedelta(seconds=10)
_IMAGE = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


@dataclass(frozen=True)
class Obstacle:
    """Why Kubernetes does not run a pod, or starts no other one."""

    reason: str
    message: str


def leave_node(node: str) -> str:
    """What to do about a node that is shut down for good.

    Kubernetes, "Non-graceful node shutdown handling". `kubectl delete node` detaches no volumes.
    """
    return f"kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


def why_no_pod(owner: StatefulSet, events: Iterable[Event], since: datetime) -> Obstacle | None:
    """Why a StatefulSet has no pod: what Kubernetes has said since then."""
    refusal = newest_warning(events, owner.uid, since - _CLOCK_SLACK)
    if refusal is None:
        return None
    message = f"Kubernetes refuses a pod of the {owner}: {refusal.message}"
    return Obstacle(refusal.reason, message)


def why_waiting(pod: Pod, events: Iterable[Event]) -> Obstacle | None:
    """Why a pod waits: in its status, or else in the warnings since it was last ready."""
    waiting = pod.waiting_reason
    if waiting is not None:
        reason, words = waiting.reason, waiting.message
    else:
        warning = newest_warning(events, pod.uid, pod.not_ready_since - _CLOCK_SLACK)
        if warning is None:
            return None
        reason, words = warning.reason, warning.message
    verb = "cannot pull its image" if reason in _IMAGE else "waits"
    return Obstacle(reason, f"The pod {pod.name} {verb}: {words or reason}")


def why_unbound(claim: Claim, events: Iterable[Event]) -> Obstacle | None:
    """Why a claim has no volume; None if it has one, or if Kubernetes does not say."""
    if claim.phase == "Lost":
        return Obstacle("ClaimLost", f"{claim}: its volume is gone")
    warning = newest_warning(events, claim.uid) if claim.phase == "Pending" else None
    if warning is None:
        return None
    message = f"The {claim} is not bound: {warning.reason}: {warning.message}"
    return Obstacle(warning.reason, message)


def why_deleted(claim: Claim) -> Obstacle | None:
    """What becomes of the checkpoint of a claim that is being deleted."""
    if not claim.terminating:
        return None
    return Obstacle(
        "CheckpointTerminating",
        f"The {claim} is being deleted: Kubernetes removes it, and with it the checkpoint, as soon "
        f"as the driver's pod ends. This cannot be undone. Keep the volume "
        f"(persistentVolumeReclaimPolicy: Retain) or copy the checkpoint now",
    )


def why_held(found: Object) -> Obstacle | None:
    """Why an object that somebody has deleted is still there, if finalizers keep it."""
    runs = isinstance(found, Pod) and any(each.running for each in found.containers)
    if not found.terminating or not found.finalizers or runs:
        return None
    command = f"kubectl patch {found.kind.plural} {found.name} -n {found.namespace}"
    return Obstacle(
        "HeldByFinalizers",
        f"The {found} is being deleted, and its finalizers keep it: {', '.join(found.finalizers)}. "
        f"There is no other one before it is gone. Whoever has set them must remove them; if "
        f'nobody does, run `{command} --type=merge -p \'{{"metadata":{{"finalizers":null}}}}\'`',
    )
