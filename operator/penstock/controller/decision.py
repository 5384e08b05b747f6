"""The decision: from a stream and its observed children to what to change. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from penstock.api import group_version
from penstock.api.v1alpha1.status import StreamStatus
from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.children import checkpoint_claim, config_map, network_policy, rbac
from penstock.controller.children.desired_stream import DesiredStream
from penstock.controller.children.diff import up_to_date, with_applied_hash
from penstock.controller.children.stateful_set import driver_stateful_set, is_of_another_operator
from penstock.controller.fields import at
from penstock.controller.objects import Manifest, Ref
from penstock.controller.observed.children import ObservedChildren
from penstock.controller.observed.stream import ObservedStream
from penstock.controller.status.events import StreamEvent, checkpoint_found, stream_events
from penstock.controller.status.stream_state import (
    Assessment,
    assess_driver,
    assess_invalid_spec,
    assess_missing_checkpoint,
    assess_previous_objects,
    assess_refused_object,
)
from penstock.controller.status.stream_status import plan_status, status_manifest

# Watches report every change. These requeues only guard against a missed one.
_REQUEUE_SETTLED = timedelta(minutes=5)
_REQUEUE_CHANGING = timedelta(seconds=30)


@dataclass(frozen=True)
class Decision:
    """What to change, in this order: apply, delete, write the status, send events."""

    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()
    status_manifest: Manifest | None = None
    """The status to write; None if it is unchanged."""
    events: tuple[StreamEvent, ...] = ()
    requeue_after: timedelta | None = None
    status: StreamStatus | None = None
    """The status that holds after this decision, changed or not."""

    @property
    def changes_nothing(self) -> bool:
        """Whether carrying it out writes nothing."""
        return not (self.apply or self.delete or self.status_manifest or self.events)


def reconcile(stream: ObservedStream, children: ObservedChildren, now: datetime) -> Decision:
    """One level-triggered step for every cause: an edit, a failure, a report or a timer."""
    if stream.terminating:
        return Decision()  # Kubernetes deletes the children through their owner references
    previous = _previous_objects(children, stream.uid)
    if previous:
        # A driver that still runs belongs to the previous stream, and so does its progress.
        children = replace(children, stateful_set=None, pods=())
    desired = stream.desired
    if desired is None:
        return _decide(stream, children, assess_invalid_spec(stream.problems, children), now)
    if previous:
        return _decide(stream, children, assess_previous_objects(previous), now)
    if children.claim is None and stream.status.epoch is not None:
        return _decide(stream, children, assess_missing_checkpoint(stream.name), now)
    assessment = assess_driver(
        stream.name,
        desired.spec_hash,
        children,
        restarting=stream.status.internal is not None,
    )
    to_apply = _to_apply(desired, children)
    to_delete = _to_delete(desired, children, applied=not to_apply)
    decision = _decide(stream, children, assessment, now, apply=to_apply, delete=to_delete)
    if children.claim is not None and not stream.has_status:
        found = checkpoint_found(objects.name_of(children.claim))
        return replace(decision, events=(found, *decision.events))
    return decision


def refused(
    stream: ObservedStream, children: ObservedChildren, message: str, now: datetime
) -> Decision:
    """The decision after the API server refused an object: to report that."""
    return _decide(stream, children, assess_refused_object(message), now)


def _decide(
    stream: ObservedStream,
    children: ObservedChildren,
    assessment: Assessment,
    now: datetime,
    *,
    apply: tuple[Manifest, ...] = (),
    delete: tuple[Ref, ...] = (),
) -> Decision:
    update = plan_status(stream, assessment, children.driver_pod, now)
    changed = update.status != stream.status
    requeue = _REQUEUE_SETTLED if assessment.ready or assessment.stalled else _REQUEUE_CHANGING
    return Decision(
        apply=apply,
        delete=delete,
        status_manifest=status_manifest(stream, update.status) if changed else None,
        events=stream_events(stream.status, update.status) if changed else (),
        requeue_after=min(update.numbers_due_in or requeue, requeue),
        status=update.status,
    )


def _to_apply(desired: DesiredStream, children: ObservedChildren) -> tuple[Manifest, ...]:
    """The objects that differ from what is desired, each after those that it refers to."""
    optional = (rbac.service_account(desired), network_policy.network_policy(desired))
    before_driver = (
        *(each for each in optional if each is not None),
        rbac.role(desired),
        rbac.role_binding(desired),
        config_map.config_map(desired),
    )
    asked = with_applied_hash(checkpoint_claim.claim(desired))
    claim = checkpoint_claim.claim_as_allowed(asked, children.claim)
    driver = with_applied_hash(driver_stateful_set(desired))
    # An existing claim comes last, because a refused expansion must not delay anything else.
    last = (claim, driver) if children.claim is None else (driver, claim)
    manifests = (*map(with_applied_hash, before_driver), *last)
    return tuple(
        each
        for each in manifests
        if not up_to_date(each, found := children.find(each))
        and not (each is driver and is_of_another_operator(driver, found))
        and not (found is not None and objects.is_terminating(found))
    )


def _to_delete(
    desired: DesiredStream, children: ObservedChildren, *, applied: bool
) -> tuple[Ref, ...]:
    """The objects that a rollout no longer needs; none before the rollout itself is applied."""
    if not applied:
        return ()
    stuck, policy = _stuck_pod(desired, children), _unwanted_policy(desired, children)
    optional = (stuck, policy)
    return (*_unused_config_maps(desired, children), *(each for each in optional if each))


def _unused_config_maps(desired: DesiredStream, children: ObservedChildren) -> tuple[Ref, ...]:
    """The ConfigMaps that no pod reads any more."""
    hashes = {desired.spec_hash}
    if children.driver_pod is not None:
        hashes.add(children.driver_pod.spec_hash)
    used = {naming.config_name(desired.name, each) for each in hashes}
    return tuple(
        objects.ref_to(each)
        for each in children.config_maps
        if objects.name_of(each) not in used
        and not objects.is_terminating(each)
        and objects.is_owned_by(each, desired.uid)
    )


def _unwanted_policy(desired: DesiredStream, children: ObservedChildren) -> Ref | None:
    """The NetworkPolicy of a stream whose administrator wants none any more."""
    found = children.network_policy
    if desired.settings.network_policies or found is None or objects.is_terminating(found):
        return None
    return objects.ref_to(found) if objects.is_owned_by(found, desired.uid) else None


def _stuck_pod(desired: DesiredStream, children: ObservedChildren) -> Ref | None:
    """A pod of an older revision that is not ready and that nothing replaces.

    The StatefulSet controller replaces it itself, except in some releases, which count a pod that
    was never ready as the one that may be unavailable. The operator deletes this pod by UID and
    with its own grace period, so the StatefulSet still guarantees that there is only one.
    """
    pod, owner = children.driver_pod, children.stateful_set
    if pod is None or owner is None or pod.terminating or pod.ready:
        return None
    observed, generation = (
        at(owner, "status", "observedGeneration"),
        at(owner, "metadata", "generation"),
    )
    update = at(owner, "status", "updateRevision")
    if observed is None or observed != generation or not update:
        return None
    if pod.spec_hash == desired.spec_hash or pod.revision == update:
        return None
    return objects.ref_to(pod.manifest)


def _previous_objects(children: ObservedChildren, uid: str) -> list[str]:
    """The objects of a deleted stream of the same name that Kubernetes has yet to remove.

    To take them over would race with the garbage collector. Under the reclaim policy Delete it
    would also keep a checkpoint that was meant to be deleted.
    """
    claim = children.claim
    previous = [
        each
        for each in children.applied()
        if any(
            owner.get("kind") == group_version.KIND and owner.get("uid") != uid
            for owner in objects.owners_of(each)
        )
    ]
    if children.stateful_set is None and claim is not None and objects.is_terminating(claim):
        previous.append(claim)
    return sorted({f"{each['kind']} {objects.name_of(each)}" for each in previous})
