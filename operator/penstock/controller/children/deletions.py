"""What the operator deletes, always by UID. Pure."""

from __future__ import annotations

from penstock.cluster.assessment import has_void_token
from penstock.cluster.kinds import Ref
from penstock.contract import naming
from penstock.controller.children.revision import Revision
from penstock.controller.observation import ObservedChildren


def to_delete(
    desired: Revision, children: ObservedChildren, *, another_pod: bool
) -> tuple[Ref, ...]:
    """The objects that a rollout, which is applied, no longer needs.

    `another_pod`: the driver's pod is to end, although the StatefulSet does not replace it.
    """
    pod, policy = children.driver_pod, _unwanted_policy(desired, children)
    pods = void_pod(children)
    if pod is not None and not pods and (another_pod or _is_stuck(desired, children)):
        pods = () if pod.terminating else (pod.ref,)
    policies = (policy,) if policy else ()
    return (*_unused_config_maps(desired, children), *pods, *policies)


def _unused_config_maps(desired: Revision, children: ObservedChildren) -> tuple[Ref, ...]:
    """The ConfigMaps that no pod reads any more."""
    hashes = {desired.pod_hash}
    if children.driver_pod is not None:
        hashes.add(children.driver_pod.pod_hash)
    used = {naming.config_name(desired.name, each) for each in hashes}
    return tuple(
        each.ref
        for each in children.config_maps
        if each.name not in used and not each.terminating and each.is_owned_by(desired.uid)
    )


def _unwanted_policy(desired: Revision, children: ObservedChildren) -> Ref | None:
    """The NetworkPolicy of a stream whose administrator wants none any more."""
    found = children.network_policy
    if desired.settings.network_policies.enabled or found is None or found.terminating:
        return None
    return found.ref if found.is_owned_by(desired.uid) else None


def _is_stuck(desired: Revision, children: ObservedChildren) -> bool:
    """Whether the pod is of an older template, is not ready, and nothing replaces it.

    The StatefulSet controller replaces it itself, except in some releases, which count a pod that
    was never ready as the one that may be unavailable. The operator deletes this pod by UID and
    with its own grace period, so the StatefulSet still guarantees that there is only one.
    """
    pod, owner = children.driver_pod, children.stateful_set
    if pod is None or owner is None or pod.terminating or pod.ready:
        return False
    is_newest = owner.update_revision in ("", pod.revision)
    return not is_newest and pod.pod_hash != desired.pod_hash


def void_pod(children: ObservedChildren) -> tuple[Ref, ...]:
    """The driver's pod, if its token is of a ServiceAccount that is gone.

    Its query runs on, but can have no other executors, and cannot report. The next pod is younger
    than the account, so it is replaced once. The StatefulSet still guarantees that there is only
    one.
    """
    pod, owner = children.driver_pod, children.stateful_set
    if pod is None or owner is None or owner.scaled_to_zero or pod.terminating:
        return ()
    return (pod.ref,) if has_void_token(children) else ()
