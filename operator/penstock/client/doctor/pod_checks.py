"""Checks of a stream's pods, and of what they need from Kubernetes: nodes, quota, volume, image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal

from penstock.api.problem import Problem
from penstock.api.quantities import amount
from penstock.client.cluster_facts import ClusterFacts, StreamFacts
from penstock.client.doctor.finding import Finding, Severity
from penstock.cluster.objects import Node, Quota
from penstock.cluster.pods import OOM_KILLED, Pod
from penstock.cluster.stream_state import (
    driver_obstacles,
    executor_obstacles,
    is_overdue,
    leave_node,
    why_deleted,
    why_held,
    why_no_pod,
    why_unbound,
)
from penstock.contract.remedies import remedy_for

# What was said, or ended, longer ago is no cause of what is wrong now.
_RECENT = timedelta(minutes=30)
# The volume waits for the pod, and not the pod for the volume (volumeBindingMode).
_BOUND_LATER = frozenset({"WaitForFirstConsumer", "WaitForPodScheduled"})
# What a stream reports while pods of it are missing.
_WITHOUT_PODS = frozenset({"NoDriverPod", "WaitingForCores", "FailedCreate", "DriverPodReplaced"})
_KILLED = frozenset({"DriverKilled", OOM_KILLED, "DriverRestarting", "CrashLoopBackOff"})
_WITHOUT_EXECUTOR = frozenset({"ExecutorLost", "CoresLost", "TaskFailed", "WaitingForCores"})


def node_away(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the nodes of its pods are there and Ready."""
    driver = stream.driver_pod
    for name in dict.fromkeys(pod.node for pod in stream.pods if pod.node):
        if name not in facts.nodes:
            continue  # it could not be read
        is_drivers = driver is not None and driver.node == name and why_held(driver) is None
        why = _why_not_ready(facts.nodes[name])
        if not why and not (driver is not None and is_drivers and is_overdue(driver, facts.now)):
            continue
        pods = ", ".join(pod.name for pod in stream.pods if pod.node == name)
        stuck = (
            ". Kubernetes starts no other driver before the node confirms the end of this one"
            if driver is not None and is_drivers and driver.terminating
            else ""
        )
        yield Finding(
            Severity.PROBLEM,
            str(stream.key),
            "DriverNodeUnreachable" if is_drivers else "NodeNotReady",
            f"The node {name} of {pods} {why or 'does not end the pod'}{stuck}",
            f"Repair the node. Only if it is shut down for good: {leave_node(name)}",
            f"kubectl describe node {name}",
            explains=frozenset({"DriverNodeUnreachable", "DriverNotReady"}) | _WITHOUT_EXECUTOR,
        )


def _why_not_ready(node: Node | None) -> str:
    """Why a node is not Ready; empty if it is."""
    if node is None:
        return "is gone from the cluster"
    return f"is not Ready ({node.not_ready})" if node.not_ready else ""


def obstacles(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """What Kubernetes says keeps pods from running: volume, quota, scheduling, image."""
    for obstacle in dict.fromkeys((*_of_driver(stream, facts), *executor_obstacles(stream))):
        if obstacle.reason != "CrashLoopBackOff":  # a crash is the status' to explain
            yield _finding(stream, obstacle, _WITHOUT_PODS)
    deleted = why_deleted(stream.claim) if stream.claim else None
    for obstacle in filter(None, (deleted, *map(why_held, stream.pods))):
        yield _finding(stream, obstacle)


def _of_driver(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Problem]:
    pod, owner = stream.driver_pod, stream.stateful_set
    if pod is None:
        # Not since the status says so: no operator may have looked at it.
        refusal = why_no_pod(owner, stream.events, facts.now - _RECENT) if owner else None
        if refusal is not None and not stream.stopped:
            yield refusal
    elif not pod.started and not pod.terminating:
        yield from filter(None, (_unexplained_claim(stream),))
        yield from driver_obstacles(pod, stream)


def _unexplained_claim(stream: StreamFacts) -> Problem | None:
    """A claim without a volume, for which no warning says why."""
    claim = stream.claim
    if claim is None or claim.phase != "Pending" or why_unbound(claim, stream.events):
        return None
    reported = [
        f"{event.reason}: {event.message}" for event in stream.events if event.uid == claim.uid
    ]
    if reported and reported[-1].partition(":")[0] in _BOUND_LATER:
        return None
    storage = claim.storage_class or "the default"
    message = f"The {claim} is not bound (class {storage})"
    return Problem("ProvisioningFailed", ": ".join([message, *reported[-1:]]))


def quota(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether a quota leaves too little for the next pod.

    Only the driver's log says that the API server refuses an executor: Spark creates it.
    """
    without_driver = stream.driver_pod is None and not stream.stopped
    if without_driver or stream.reason == "WaitingForCores":
        for quota in facts.quotas:
            if quota.namespace == stream.key.namespace:
                yield from _used_up(stream, quota)


def _used_up(stream: StreamFacts, quota: Quota) -> Iterator[Finding]:
    hard, used = quota.hard, quota.used
    short = [
        f"{used[name]} of {hard[name]} {name}"
        for name, needed in _needed(stream).items()
        if name in hard and name in used and _left(hard[name], used[name]) < needed
    ]
    if short:
        message = f"The {quota} is used up: {', '.join(short)}"
        yield _finding(stream, Problem("FailedCreate", message), _WITHOUT_PODS)


def _needed(stream: StreamFacts) -> dict[str, Decimal]:
    """What the next pod takes of each kind of quota; as far as the status says."""
    effective = stream.status.effective
    part = effective and (effective.executor if stream.driver_pod else effective.driver)
    needed = {"pods": Decimal(1), "count/pods": Decimal(1)}
    with suppress(ValueError):
        if part and part.cpu:
            needed |= dict.fromkeys(("cpu", "requests.cpu"), amount(part.cpu))
        if part and part.memory:
            needed["limits.memory"] = amount(part.memory)
    return needed


def _left(hard: object, used: object) -> Decimal:
    """What a quota leaves; much if that cannot be read."""
    try:
        return amount(str(hard)) - amount(str(used))
    except ValueError:
        return Decimal("Infinity")


def killed_for_memory(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Containers that used more memory than their limit, a short while ago."""
    for pod in stream.pods:
        for end in (end for container in pod.containers for end in container.ends):
            is_recent = end.finished is None or facts.now - end.finished < _RECENT
            if end.reason == OOM_KILLED and is_recent:
                yield _killed(stream, pod, end.finished)


def _killed(stream: StreamFacts, pod: Pod, finished: datetime | None) -> Finding:
    part = "driver" if pod.is_driver else "executor"
    has_passed = stream.holds("Ready")
    # Without an executor a stream may stay Ready for a while, so of one the time says nothing.
    if pod.is_driver and finished is not None:
        has_passed = stream.has_passed(finished)
    return Finding(
        Severity.WARNING if has_passed else Severity.PROBLEM,
        str(stream.key),
        OOM_KILLED,
        f"The {part} {pod.name} used more memory than its limit and was killed",
        f"Raise {part}.resources.limits.memory and {part}.memoryOverhead.",
        f"kubectl edit cstream {stream.key.name} -n {stream.key.namespace}",
        explains=_KILLED | _WITHOUT_EXECUTOR,
    )


def _finding(
    stream: StreamFacts, obstacle: Problem, effects: frozenset[str] = frozenset()
) -> Finding:
    """A problem whose remedy the table of reasons has."""
    remedy, key = remedy_for(obstacle.reason, "Pending"), stream.key
    return Finding(
        Severity.PROBLEM,
        str(key),
        obstacle.reason,
        obstacle.message,
        remedy.action,
        stream.command(remedy),
        effects | {obstacle.reason},
    )
