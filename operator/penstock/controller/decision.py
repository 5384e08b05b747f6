"""The decision: from a stream and what is there, what to change. No I/O and no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import ValidationError

from penstock.api import group_version
from penstock.api.v1alpha1.status import StreamStatus
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.children import (
    checkpoint_claim,
    config_map,
    desired_stream,
    rbac,
)
from penstock.controller.children.desired_stream import Wanted
from penstock.controller.children.diff import stamped, up_to_date
from penstock.controller.children.stateful_set import driver_set
from penstock.controller.objects import Manifest, Ref
from penstock.controller.observed.state import Observed
from penstock.controller.status import assessment
from penstock.controller.status.assessment import Verdict
from penstock.controller.status.events import Notice, checkpoint_found, notices
from penstock.controller.status.stream_status import as_manifest, stand, status_before
from penstock.validation import problems
from penstock.validation.problems import Problem

# Watches tell of every change; looking again by the clock only guards against one that is missed.
_SETTLED = timedelta(minutes=5)
_MOVING = timedelta(seconds=30)


@dataclass(frozen=True)
class Decision:
    """What to change, in this order: apply, delete, write the status, tell of it."""

    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()
    status: Manifest | None = None
    notices: tuple[Notice, ...] = ()
    look_again_after: timedelta | None = None
    standing: StreamStatus | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether carrying it out writes nothing at all."""
        return not (self.apply or self.delete or self.status or self.notices)


def reconcile(raw: Manifest, observed: Observed, now: datetime, default_image: str) -> Decision:
    """One level-triggered step for every cause: an edit, a death, a report, or the clock."""
    if objects.is_going(raw):
        return Decision()  # the rest goes by its owner references
    leftovers = _leftovers(observed, raw["metadata"]["uid"])
    if leftovers:
        # A driver that still runs is another stream's, and its progress is not this one's.
        observed = replace(observed, stateful_set=None, pods=())
    wanted = read(raw, default_image)
    if not isinstance(wanted, Wanted):
        return _decide(raw, observed, assessment.of_problems(wanted, observed), now)
    if leftovers:
        return _decide(raw, observed, assessment.of_leftovers(leftovers), now)
    before = status_before(raw)
    if observed.claim is None and before.epoch is not None:
        return _decide(raw, observed, assessment.of_missing_checkpoint(wanted.name), now)
    judged = assessment.of_driver(
        wanted.name, wanted.spec_hash, observed, restarting=before.driver is not None
    )
    to_apply = _to_apply(wanted, observed)
    to_delete = _to_delete(wanted, observed, settled=not to_apply)
    decision = _decide(raw, observed, judged, now, apply=to_apply, delete=to_delete)
    if observed.claim is not None and raw.get("status") is None:
        found = checkpoint_found(observed.claim["metadata"]["name"])
        return replace(decision, notices=(found, *decision.notices))
    return decision


def refused(raw: Manifest, observed: Observed, message: str, now: datetime) -> Decision:
    """The decision after the API server refused one of the objects: to say so."""
    return _decide(raw, observed, assessment.of_refusal(message), now)


def read(raw: Manifest, default_image: str) -> Wanted | list[Problem]:
    """The stream as it should run, or what keeps it from running."""
    try:
        stream = ContinuousStream.model_validate(raw)
    except ValidationError as error:
        return problems.of_error(error)
    found = problems.of_spec(stream.spec)
    return found or desired_stream.resolve(stream, raw["metadata"]["uid"], default_image)


def _warnings(raw: Manifest) -> list[Problem]:
    """What is worth a warning in a spec that can be read."""
    try:
        return problems.warnings_of(ContinuousStream.model_validate(raw).spec)
    except ValidationError:
        return []


def _decide(
    raw: Manifest,
    observed: Observed,
    judged: Verdict,
    now: datetime,
    *,
    apply: tuple[Manifest, ...] = (),
    delete: tuple[Ref, ...] = (),
) -> Decision:
    before = status_before(raw)
    standing = stand(raw, judged, observed.driver_pod, now, _warnings(raw))
    changed = standing.status != before
    look_again = _SETTLED if judged.ready or judged.stalled else _MOVING
    return Decision(
        apply=apply,
        delete=delete,
        status=as_manifest(raw, standing.status) if changed else None,
        notices=notices(before, standing.status) if changed else (),
        look_again_after=min(standing.due or look_again, look_again),
        standing=standing.status,
    )


def _to_apply(wanted: Wanted, observed: Observed) -> tuple[Manifest, ...]:
    """What is not there yet as wanted, in an order in which each finds what it names."""
    account = rbac.service_account(wanted)
    before_driver = (
        *([account] if account is not None else []),
        rbac.role_binding(wanted),
        config_map.config_map(wanted),
    )
    asked = stamped(checkpoint_claim.claim(wanted))
    claim = checkpoint_claim.claim_as_allowed(asked, observed.claim)
    driver = stamped(driver_set(wanted))
    # A claim that exists comes last: that it may not grow must not hold up anything else.
    last = (claim, driver) if observed.claim is None else (driver, claim)
    everything = (*map(stamped, before_driver), *last)
    return tuple(
        each
        for each in everything
        if not up_to_date(each, found := observed.find(each))
        and not (found is not None and objects.is_going(found))
    )


def _to_delete(wanted: Wanted, observed: Observed, *, settled: bool) -> tuple[Ref, ...]:
    """What a rollout left behind; nothing while the rollout itself is still to be applied."""
    if not settled:
        return ()
    stuck = _stuck_pod(wanted, observed)
    return (*_old_documents(wanted, observed), *([stuck] if stuck else []))


def _old_documents(wanted: Wanted, observed: Observed) -> tuple[Ref, ...]:
    """ConfigMaps that no pod reads any more."""
    hashes = {wanted.spec_hash}
    if observed.driver_pod is not None:
        hashes.add(observed.driver_pod.spec_hash)
    kept = {naming.config_name(wanted.name, each) for each in hashes}
    return tuple(
        objects.ref_to(each)
        for each in observed.config_maps
        if each["metadata"]["name"] not in kept
        and not objects.is_going(each)
        and any(owner["uid"] == wanted.uid for owner in objects.owners_of(each))
    )


def _stuck_pod(wanted: Wanted, observed: Observed) -> Ref | None:
    """A pod of an older revision that is not ready and that nobody replaces.

    The StatefulSet controller replaces it itself, except in some releases when it counts a pod
    that was never ready as the one that may be unavailable. Deleting it, this incarnation and in
    its own grace, leaves it to the StatefulSet that there is never a second one.
    """
    pod, owner = observed.driver_pod, observed.stateful_set
    if pod is None or owner is None or pod.going or pod.ready:
        return None
    seen = owner.get("status") or {}
    if seen.get("observedGeneration") != owner["metadata"]["generation"]:
        return None
    if pod.spec_hash == wanted.spec_hash or pod.revision == seen.get("updateRevision"):
        return None
    return objects.ref_to(pod.manifest)


def _leftovers(observed: Observed, uid: str) -> list[str]:
    """Objects of an earlier stream of this name, which Kubernetes is about to remove.

    Taking them over instead would race with the garbage collector, and under Delete bring back a
    checkpoint that was meant to go.
    """
    claim = observed.claim
    left = [
        each
        for each in observed.children()
        if any(
            owner["kind"] == group_version.KIND and owner["uid"] != uid
            for owner in objects.owners_of(each)
        )
    ]
    if observed.stateful_set is None and claim is not None and objects.is_going(claim):
        left.append(claim)
    return sorted({f"{each['kind']} {each['metadata']['name']}" for each in left})
