"""Which objects of a stream are applied and deleted, deletions always by UID. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest, Ref
from penstock.cluster.pods import LABEL_REVISION
from penstock.cluster.stream_state import has_revoked_token
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.children import checkpoint_claim, rbac_and_network
from penstock.controller.children.diff import up_to_date, with_applied_hash
from penstock.controller.children.revision import config_map
from penstock.controller.children.stateful_set import (
    driver_stateful_set,
    is_of_another_operator,
    scaled_to_zero,
    with_template_of,
)
from penstock.controller.edit_acceptance import needs_another_pod
from penstock.controller.situation import Situation
from penstock.controller.status.not_applied import NotApplied


@dataclass(frozen=True)
class Writes:
    """What to apply, in this order, and then to delete."""

    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()
    another_pod: bool = False
    """Whether the driver's pod is replaced because its driver does not take an edit."""


NO_WRITES = Writes()


def writes_if_not_applied(situation: Situation, refusal: NotApplied) -> Writes:
    """What is looked after although the newest spec is not applied."""
    if refusal.deliberate:
        return NO_WRITES
    pods = _pod_with_revoked_token(situation) if refusal.replaces_pod else ()
    return Writes((*_first(situation), *_labels_of_pod(situation)), pods)


def writes_if_applied(situation: Situation) -> Writes:
    """What makes the newest spec run. What a rollout no longer needs is deleted once it is applied.

    An existing claim delays nothing: the API server refuses an expansion that the storage class
    does not allow.
    """
    due = (manifest for manifest in _desired_objects(situation) if _is_due(manifest, situation))
    to_apply = (*_first(situation), *due, *_labels_of_pod(situation))
    if not all(map(situation.children.is_existing_claim, to_apply)):
        return Writes(to_apply)
    another_pod = needs_another_pod(situation)
    pods = _pod_with_revoked_token(situation) or _replaced_pod(situation, another_pod=another_pod)
    obsolete = (*_unused_config_maps(situation), *pods, *_disabled_network_policy(situation))
    return Writes(to_apply, obsolete, another_pod)


def _first(situation: Situation) -> tuple[Manifest, ...]:
    """What comes before all that may be refused later: a checkpoint in danger, and a driver that
    is to stop.
    """
    if situation.previous:
        return ()
    return (*retained_claim(situation), *_stopped_driver(situation))


def retained_claim(situation: Situation) -> tuple[Manifest, ...]:
    """The claim without its owner, if the spec says Retain and the claim would still be deleted.

    This needs no valid spec: whoever corrects it later may delete the stream before.
    """
    claim, stream = situation.claim, situation.stream
    if claim is None or not stream.retains_checkpoint:
        return ()
    if not claim.is_owned_by(stream.uid) or claim.terminating:
        return ()
    return (with_applied_hash(checkpoint_claim.without_owner(claim)),)


def _stopped_driver(situation: Situation) -> tuple[Manifest, ...]:
    """The StatefulSet of a suspended stream, without a driver, if there still is one.

    This needs no spec that can be applied: who wants to stop a stream need not correct it first.
    """
    owner, stream = situation.owner, situation.stream
    if not stream.suspended or owner is None or owner.scaled_to_zero:
        return ()
    if not owner.is_owned_by(stream.uid) or owner.terminating:
        return ()
    return (with_applied_hash(scaled_to_zero(owner)),)


def _desired_objects(situation: Situation) -> tuple[Manifest, ...]:
    """All objects of a stream, each after those that it refers to."""
    desired, claim = situation.desired, situation.claim
    begun = situation.stream.status.epoch is not None
    optional = (rbac_and_network.service_account(desired), rbac_and_network.network_policy(desired))
    before_driver = (
        *(manifest for manifest in optional if manifest is not None),
        rbac_and_network.role(desired),
        rbac_and_network.role_binding(desired),
        config_map(desired),
    )
    before = tuple(map(with_applied_hash, before_driver))
    driver = _driver(situation)
    if desired.checkpoint_location:
        driver = checkpoint_claim.with_start_of(driver, situation.owner, begun=begun)
        return (*before, with_applied_hash(driver))
    driver = with_applied_hash(driver)
    # A claim that is older than the stream may have commits from an earlier one.
    is_older = claim is not None and claim.created < situation.stream.created
    claim_manifest = with_applied_hash(checkpoint_claim.claim(desired))
    claim_manifest = checkpoint_claim.claim_as_allowed(
        claim_manifest, claim, begun=begun or is_older
    )
    # An existing claim comes last, so that what it is not to delay is written first.
    last = (claim_manifest, driver) if claim is None else (driver, claim_manifest)
    return (*before, *last)


def _driver(situation: Situation) -> Manifest:
    """The StatefulSet, with the pod template that runs if that is another operator's."""
    pod, owner = situation.pod, situation.owner
    has_finished = _should_delete_finished_driver(situation)
    driver = driver_stateful_set(situation.desired, situation.claim, has_finished=has_finished)
    runs = pod is not None and not pod.terminating
    if owner is not None and runs and is_of_another_operator(driver, owner):
        return with_template_of(driver, owner)
    return driver


def _should_delete_finished_driver(situation: Situation) -> bool:
    """Whether a revision that has finished is to have no driver any more."""
    owner, pod = situation.owner, situation.pod
    if not situation.stays_finished:
        return False
    if pod is None or pod.terminating or (owner is not None and owner.has_finished):
        return True
    remaining = situation.until_driver_deleted(situation.stream.status)
    runs_again = pod.report is None or pod.report.state is not QueryState.COMPLETED
    return runs_again or (remaining is not None and remaining <= timedelta(0))


def _is_due(manifest: Manifest, situation: Situation) -> bool:
    observed = situation.children.find(manifest)
    if observed is None:
        return True
    settled = situation.children.settled.get(observed.uid)
    return not up_to_date(manifest, observed, settled) and not observed.terminating


def _labels_of_pod(situation: Situation) -> tuple[Manifest, ...]:
    """The driver's pod with the labels by which its StatefulSet owns it, if it lacks any.

    Otherwise the StatefulSet lets it go, and can create no other of its name while it runs.
    """
    pod, owner = situation.pod, situation.owner
    if pod is None or owner is None or pod.terminating or owner.terminating:
        return ()
    owning = owner.selector
    if not pod.revision and owner.update_revision and pod.pod_hash == owner.pod_hash:
        owning = {**owning, LABEL_REVISION: owner.update_revision}
    if owning.items() <= pod.labels.items():
        return ()
    meta = {"name": pod.name, "namespace": pod.namespace, "labels": dict(owning)}
    return ({"apiVersion": kinds.POD.api_version, "kind": kinds.POD.kind, "metadata": meta},)


def _unused_config_maps(situation: Situation) -> tuple[Ref, ...]:
    """The ConfigMaps that no pod reads any more."""
    desired, pod = situation.desired, situation.pod
    hashes = {desired.pod_hash, desired.pod_hash if pod is None else pod.pod_hash}
    used = {naming.config_name(desired.name, pod_hash) for pod_hash in hashes}
    return tuple(
        config_map.ref
        for config_map in situation.children.config_maps
        if config_map.name not in used
        and not config_map.terminating
        and config_map.is_owned_by(desired.uid)
    )


def _disabled_network_policy(situation: Situation) -> tuple[Ref, ...]:
    """The NetworkPolicy of a stream whose administrator wants none any more."""
    desired, policy = situation.desired, situation.children.network_policy
    if desired.settings.network_policies.enabled or policy is None or policy.terminating:
        return ()
    return (policy.ref,) if policy.is_owned_by(desired.uid) else ()


def _replaced_pod(situation: Situation, *, another_pod: bool) -> tuple[Ref, ...]:
    """The driver's pod, if it is to end although the StatefulSet does not replace it.

    The StatefulSet controller replaces the pod of an older template itself, except in some
    releases, which count a pod that was never ready as the one that may be unavailable. The
    operator deletes such a pod by UID and with its own grace period, so the StatefulSet still
    guarantees that there is only one.
    """
    pod, owner = situation.pod, situation.owner
    if pod is None or owner is None or pod.terminating:
        return ()
    is_newest = owner.update_revision in ("", pod.revision)
    is_stuck = not (pod.ready or is_newest or pod.pod_hash == situation.desired.pod_hash)
    return (pod.ref,) if another_pod or is_stuck else ()


def _pod_with_revoked_token(situation: Situation) -> tuple[Ref, ...]:
    """The driver's pod, if its token is of a ServiceAccount that is gone.

    Its query runs on, but can have no other executors, and cannot report. The next pod is younger
    than the account, so it is replaced once. The StatefulSet still guarantees that there is only
    one.
    """
    pod, owner = situation.pod, situation.owner
    if pod is None or owner is None or owner.scaled_to_zero or pod.terminating:
        return ()
    return (pod.ref,) if has_revoked_token(situation.children) else ()
