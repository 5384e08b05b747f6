"""Checks of a stream's pods, and of what they need from Kubernetes: nodes, quota, volume, image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

from penstock.api.quantities import amount
from penstock.client.checks.finding import Finding, Severity
from penstock.client.facts import ClusterFacts, StreamFacts, namespace_of
from penstock.cluster import fields, kinds
from penstock.cluster.driver_pod import waiting_reason
from penstock.cluster.events import ClusterEvent, newest
from penstock.cluster.fields import at, mapping, mappings, timestamp
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.contract.reasons import remedy_for

# The kubelet confirms a pod's end within seconds; what takes longer has a node that is away.
_TERMINATION_SLACK = timedelta(seconds=30)
# A warning of Kubernetes that is not repeated for so long is no cause of what is wrong now.
_RECENT = timedelta(minutes=30)
# The volume waits for the pod, and not the pod for the volume (volumeBindingMode).
_BOUND_LATER = frozenset({"WaitForFirstConsumer", "WaitForPodScheduled"})
_IMAGE = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
# What a stream reports while pods of it are missing.
_WITHOUT_PODS = frozenset({"NoDriverPod", "WaitingForCores", "FailedCreate", "DriverPodReplaced"})
_KILLED = frozenset({"DriverKilled", "OOMKilled", "DriverRestarting", "CrashLoopBackOff"})
_WITHOUT_EXECUTOR = frozenset({"ExecutorLost", "CoresLost", "TaskFailed", "WaitingForCores"})


def node_away(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the nodes of its pods are there and Ready."""
    driver = stream.driver
    due = driver.termination_due if driver else None
    overdue = due is not None and facts.now > due + _TERMINATION_SLACK
    for name in dict.fromkeys(_node(pod) for pod in stream.pods if _node(pod)):
        is_drivers = driver is not None and driver.node == name
        if name not in facts.nodes:
            continue  # it could not be read
        node = facts.nodes[name]
        why = _why_not_ready(node)
        if not why and not (is_drivers and overdue):
            continue
        pods = [kinds.name_of(pod) for pod in stream.pods if _node(pod) == name]
        stuck = (
            ". Kubernetes starts no other driver before the node confirms the end of this one"
            if is_drivers and due is not None
            else ""
        )
        yield Finding(
            Severity.PROBLEM,
            str(stream.key),
            "DriverNodeUnreachable" if is_drivers else "NodeNotReady",
            f"The node {name} of {', '.join(pods)} {why or 'does not end the pod'}{stuck}",
            "Repair the node. Only if it is shut down for good: kubectl taint nodes "
            f"{name} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
            f"kubectl describe node {name}",
            explains=frozenset({"DriverNodeUnreachable", "DriverNotReady"}) | _WITHOUT_EXECUTOR,
        )


def _why_not_ready(node: Manifest | None) -> str:
    """Why a node is not Ready; empty if it is."""
    if node is None:
        return "is gone from the cluster"
    ready = _condition(node, "Ready")
    if ready.get("status") == "True":
        return ""
    return f"is not Ready ({fields.text(ready.get('message')) or 'no condition'})"


def volume(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the checkpoint's claim is there, bound, and stays."""
    claim, name = stream.claim, naming.checkpoint_claim_name(stream.key.name)
    if claim is None:
        return  # CheckpointMissing is in the status, if there was one
    phase = at(claim, "status", "phase")
    event = newest(stream.events, kinds.uid_of(claim)) if phase != "Bound" else None
    said = f": {event.reason}: {event.message}" if event else ""
    if phase == "Lost":
        yield _finding(stream, "ClaimLost", f"The volume of {name} is gone", _WITHOUT_PODS)
    elif phase == "Pending" and event is not None and event.is_warning:
        message = f"The PersistentVolumeClaim {name} is not bound{said}"
        yield _finding(stream, event.reason, message, {"Unschedulable", *_WITHOUT_PODS})
    elif (
        phase == "Pending"
        and stream.driver is not None
        and not stream.driver.started
        and not (event is not None and event.reason in _BOUND_LATER)
    ):
        storage = fields.text(at(claim, "spec", "storageClassName")) or "the default"
        message = f"The PersistentVolumeClaim {name} is not bound (class {storage}){said}"
        yield _finding(stream, "ProvisioningFailed", message, {"Unschedulable", *_WITHOUT_PODS})
    if kinds.is_terminating(claim):
        message = f"The PersistentVolumeClaim {name} is being deleted, and with it the checkpoint"
        yield _finding(stream, "CheckpointTerminating", message, {"CheckpointTerminating"})


def refused_pods(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether a quota, a limit or a policy refuses pods."""
    without_driver = stream.driver is None and not stream.suspended
    missing = without_driver or stream.reason == "WaitingForCores"
    refusal = _latest(stream, facts, "FailedCreate")
    if missing and refusal is not None:
        about = f"{refusal.kind} {refusal.name}"
        message = f"Kubernetes refuses a pod of the {about}: {refusal.message}"
        yield _finding(stream, "FailedCreate", message, _WITHOUT_PODS)
    elif missing:
        for quota in facts.quotas:
            if namespace_of(quota) == stream.key.namespace:
                yield from _used_up(stream, quota)


def _used_up(stream: StreamFacts, quota: Manifest) -> Iterator[Finding]:
    """What a quota leaves is less than the next pod asks for.

    Only the driver's log says that the API server refuses an executor: Spark creates it.
    """
    hard, used = (mapping(at(quota, "status", each)) for each in ("hard", "used"))
    short = [
        f"{used[name]} of {hard[name]} {name}"
        for name, needed in _needed(stream).items()
        if name in hard and name in used and _left(hard[name], used[name]) < needed
    ]
    if short:
        message = f"The ResourceQuota {kinds.name_of(quota)} is used up: {', '.join(short)}"
        yield _finding(stream, "FailedCreate", message, _WITHOUT_PODS)


def _needed(stream: StreamFacts) -> dict[str, Decimal]:
    """What the next pod takes of each kind of quota; as far as the status says."""
    effective = stream.status.effective
    part = effective and (effective.executor if stream.driver else effective.driver)
    found = {"pods": Decimal(1), "count/pods": Decimal(1)}
    with suppress(ValueError):
        if part and part.cpu:
            found |= dict.fromkeys(("cpu", "requests.cpu"), amount(part.cpu))
        if part and part.memory:
            found["limits.memory"] = amount(part.memory)
    return found


def _left(hard: object, used: object) -> Decimal:
    """What a quota leaves; much if that cannot be read."""
    try:
        return amount(str(hard)) - amount(str(used))
    except ValueError:
        return Decimal("Infinity")


def waiting_pods(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Why pods do not run: scheduling, images, what the kubelet says."""
    said: set[tuple[str, str]] = set()
    for pod in stream.pods:
        if kinds.is_terminating(pod):
            continue
        waiting, name = waiting_reason(pod), kinds.name_of(pod)
        reason, words = (waiting.reason, waiting.message) if waiting else ("", "")
        if not waiting:
            event = _mount_failure(stream, facts, pod)
            if event is None:
                continue
            reason, words = event.reason, event.message
        if (reason, words) in said or reason == "CrashLoopBackOff":
            continue  # one executor says what all say; a crash is the status' to explain
        said.add((reason, words))
        verb = "cannot pull its image" if reason in _IMAGE else "waits"
        yield _finding(
            stream, reason, f"The pod {name} {verb}: {words or reason}", {reason, *_WITHOUT_PODS}
        )


def _mount_failure(stream: StreamFacts, facts: ClusterFacts, pod: Manifest) -> ClusterEvent | None:
    """What keeps a pod from its volumes: Kubernetes says so in an event only."""
    if at(pod, "status", "phase") != "Pending":
        return None
    found = newest(stream.events, kinds.uid_of(pod), facts.now - _RECENT)
    return found if found is not None and found.is_warning else None


def killed_for_memory(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Containers that used more memory than their limit, a short while ago."""
    for pod in stream.pods:
        for container in mappings(at(pod, "status", "containerStatuses")):
            for when in ("state", "lastState"):
                ended = mapping(at(container, when, "terminated"))
                finished = timestamp(ended.get("finishedAt"))
                is_recent = finished is None or facts.now - finished < _RECENT
                if ended.get("reason") == "OOMKilled" and is_recent:
                    yield _killed(stream, pod)


def _killed(stream: StreamFacts, pod: Manifest) -> Finding:
    is_driver = kinds.labels_of(pod).get(naming.LABEL_COMPONENT) == naming.COMPONENT_DRIVER
    part = "driver" if is_driver else "executor"
    return Finding(
        Severity.WARNING if stream.holds("Ready") else Severity.PROBLEM,
        str(stream.key),
        "OOMKilled",
        f"The {part} {kinds.name_of(pod)} used more memory than its limit and was killed",
        f"Raise {part}.resources.limits.memory and {part}.memoryOverhead.",
        f"kubectl edit cstream {stream.key.name} -n {stream.key.namespace}",
        explains=_KILLED | _WITHOUT_EXECUTOR,
    )


def _finding(
    stream: StreamFacts, reason: str, message: str, explains: frozenset[str] | set[str]
) -> Finding:
    """A problem whose remedy the table of reasons has."""
    remedy = remedy_for(reason, "Pending")
    key = stream.key
    return Finding(
        Severity.PROBLEM,
        str(key),
        reason,
        message,
        remedy.action,
        remedy.command_for(key.namespace, key.name),
        frozenset(explains) | {reason},
    )


def _latest(stream: StreamFacts, facts: ClusterFacts, reason: str) -> ClusterEvent | None:
    found = [each for each in stream.events if each.reason == reason and each.is_warning]
    recent = [each for each in found if facts.now - each.time < _RECENT]
    return max(recent, key=lambda each: each.time, default=None)


def _node(pod: Manifest) -> str:
    return fields.text(at(pod, "spec", "nodeName"))


def _condition(manifest: Manifest, kind: str) -> dict[str, object]:
    conditions = mappings(at(manifest, "status", "conditions"))
    return dict(next((each for each in conditions if each.get("type") == kind), {}))
