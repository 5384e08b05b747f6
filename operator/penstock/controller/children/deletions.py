"""What the operator deletes, always by UID. Pure."""

from __future__ import annotations

from penstock.cluster.assessment import has_void_token
from penstock.cluster.kinds import Ref
from penstock.contract import naming
from penstock.controller.children.by_hand import is_altered
from penstock.controller.children.revision import Revision, config_map
from penstock.controller.observation import ObservedChildren


def to_delete(desired: Revision, children: ObservedChildren) -> tuple[Ref, ...]:
    """The objects that a rollout, which is applied, no longer needs."""
    stuck, policy = _stuck_pod(desired, children), _unwanted_policy(desired, children)
    pods = void_pod(children) or ((stuck,) if stuck else ())
    config = config_map(desired)
    there = children.find(config)
    altered = (there.ref,) if there is not None and is_altered(config, there) else ()
    policies = (policy,) if policy else ()
    return (*_unused_config_maps(desired, children), *altered, *pods, *policies)


def _unused_config_maps(desired: Revision, children: ObservedChildren) -> tuple[Ref, ...]:
    """The ConfigMaps that no pod reads any more."""
    hashes = {desired.spec_hash}
    if children.driver_pod is not None:
        hashes.add(children.driver_pod.spec_hash)
    used = {naming.config_name(desired.name, each) for each in hashes}
    return tuple(
        each.ref
        for each in children.config_maps
        if each.name not in used and not each.terminating and each.is_owned_by(desired.uid)
    )


def _unwanted_policy(desired: Revision, children: ObservedChildren) -> Ref | None:
    """The NetworkPolicy of a stream whose administrator wants none any more."""
    found = children.network_policy
    if desired.settings.network_policies or found is None or found.terminating:
        return None
    return found.ref if found.is_owned_by(desired.uid) else None


def _stuck_pod(desired: Revision, children: ObservedChildren) -> Ref | None:
    """A pod of an older revision that is not ready and that nothing replaces.

    The StatefulSet controller replaces it itself, except in some releases, which count a pod that
    was never ready as the one that may be unavailable. The operator deletes this pod by UID and
    with its own grace period, so the StatefulSet still guarantees that there is only one.
    """
    pod, owner = children.driver_pod, children.stateful_set
    if pod is None or owner is None or pod.terminating or pod.ready:
        return None
    is_newest = owner.update_revision in ("", pod.revision)
    return None if is_newest or pod.spec_hash == desired.spec_hash else pod.ref


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
