"""The decision: from a stream and its observed children to what to change. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from penstock.api import group_version
from penstock.api.problem import Problem
from penstock.api.v1alpha1.status import Rollout, StreamState, StreamStatus
from penstock.cluster import kinds
from penstock.cluster.assessment import (
    Assessment,
    assess_driver,
    assess_finished,
    assess_suspended,
    why_deleted,
    why_held,
)
from penstock.cluster.kinds import Manifest, Ref
from penstock.cluster.objects import Claim, StatefulSet
from penstock.cluster.rest import ApiError
from penstock.cluster.stream import holds, not_ready_since
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller import checkpoint_place
from penstock.controller.children import checkpoint_claim, rbac_and_network
from penstock.controller.children.deletions import to_delete, void_pod
from penstock.controller.children.diff import up_to_date, with_applied_hash
from penstock.controller.children.first_start import starts_elsewhere, with_start_of
from penstock.controller.children.revision import Revision, config_map
from penstock.controller.children.stateful_set import (
    driver_stateful_set,
    is_of_another_operator,
    labels_of_pod,
    scaled_to_zero,
    with_template_of,
)
from penstock.controller.edits import held_back, needs_another_pod, not_taken
from penstock.controller.observation import ObservedChildren, ObservedStream
from penstock.controller.rollout import (
    is_settled,
    next_look,
    next_rollout,
    not_tried,
)
from penstock.controller.status.outcome import (
    NotApplied,
    Outcome,
    foreign_objects,
    invalid_spec,
    missing_checkpoint,
    paused,
    previous_objects,
    rolled_back,
)
from penstock.controller.status.planned_status import failed_status, plan_status, status_manifest
from penstock.controller.status.restart_history import WantedDriver
from penstock.controller.status.stream_events import StreamEvent, checkpoint_found, stream_events

_START_IGNORED = Problem(
    "StartingOffsetsIgnored",
    "spec.source.kafka: the edit of startingOffsets, or of another option for the start, changes "
    "nothing: it applies only to a checkpoint without commits, and this stream continues from its "
    "last commit. docs/how-to/rewind.md says how to read from elsewhere",
)

# Watches report every change. These requeues only guard against a missed one.
_REQUEUE_SETTLED = timedelta(minutes=5)
_REQUEUE_CHANGING = timedelta(seconds=30)
# Kubernetes says in what is not watched why it cannot create a pod (an event), or run an executor
# (its pod). At first it is asked this soon, and then more and more rarely.
_REQUEUE_UNWATCHED = timedelta(seconds=2)
# The work queue is exact below this, and up to half as late again above.
_REQUEUE_EXACT = timedelta(minutes=1)


@dataclass(frozen=True)
class PlannedChanges:
    """What to change, in this order: apply, delete, write the status, send events."""

    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()
    status_manifest: Manifest | None = None
    """The status to write; None if it is unchanged."""
    events: tuple[StreamEvent, ...] = ()
    requeue_after: timedelta | None = None
    status: StreamStatus | None = None
    """The status that holds after these changes, changed or not."""
    steady: bool = False
    """Whether all objects are as they should be, so that a report of the driver changes none."""
    counts: bool = False
    """Whether the status counts a restart or another driver, which an older look counts again, or
    says what becomes of a revision, or that it has finished or is stuck."""

    is_behind: bool = False
    """Whether it rests on an older look at the driver's pod than one before."""

    @property
    def needs_fresh_reads(self) -> bool:
        """Whether it may rest on no observation that is behind.

        Any other status may: the next event corrects it, and a write refuses an older stream.
        """
        return bool(self.apply or self.delete or self.counts or self.is_behind)

    @property
    def changes_nothing(self) -> bool:
        return not (self.apply or self.delete or self.status_manifest or self.events)


def reconcile(stream: ObservedStream, children: ObservedChildren, now: datetime) -> PlannedChanges:
    """One level-triggered step for every cause: an edit, a failure, a report or a timer."""
    if stream.terminating:
        # Kubernetes deletes the children through their owner references.
        return PlannedChanges(
            apply=_retained_claim(stream, children), requeue_after=_REQUEUE_SETTLED
        )
    if stream.paused:
        return unapplied(stream, children, paused(), now)
    previous = _previous_objects(children, stream.uid)
    if previous:
        # A driver that still runs belongs to the previous stream, and so does its progress.
        children = replace(children, stateful_set=None, pods=())
    # First of all, so that nothing that is refused later keeps a checkpoint in danger, or a driver
    # that is to stop.
    first = (*_retained_claim(stream, children), *_stopped_driver(stream, children))
    first = () if previous else first
    desired = stream.desired
    if desired is None:
        pod, owner = children.driver_pod, children.stateful_set
        runs = pod is not None and pod.ready
        cause = invalid_spec(stream.problems, is_applied=owner is not None, runs=runs)
        labels = labels_of_pod(children)
        return unapplied(stream, children, cause, now, (*first, *labels), void_pod(children))
    if previous:
        return unapplied(stream, children, previous_objects(previous), now)
    wanted = _desired_objects(stream, desired, children, now)
    foreign = _foreign_objects(desired, wanted, children)
    if foreign:
        cause = foreign_objects(stream.name, foreign)
        if f"{kinds.STATEFUL_SET.kind} {naming.driver_name(stream.name)}" in foreign:
            children = replace(children, stateful_set=None, pods=())
        labels = labels_of_pod(children)
        return unapplied(stream, children, cause, now, (*first, *labels), void_pod(children))
    moved = checkpoint_place.moved(stream, desired, children)
    if moved is not None:
        return unapplied(stream, children, moved, now, first)
    if _lacks_checkpoint(stream, desired, children):
        return unapplied(stream, children, missing_checkpoint(stream.name), now, first)
    held = held_back(stream, desired, children, now)
    if held is not None:
        labels = labels_of_pod(children)
        return unapplied(stream, children, held, now, (*first, *labels), void_pod(children))
    due = (each for each in wanted if _is_due(each, children))
    to_apply = (*first, *due, *labels_of_pod(children))
    applied = all(map(children.is_existing_claim, to_apply))
    another_pod = applied and needs_another_pod(desired, children, now)
    obsolete = to_delete(desired, children, another_pod=another_pod) if applied else ()
    outcome = _running(stream, desired, children, now)
    rollout = next_rollout(stream, outcome, children, now)
    planned = _decide(
        stream, children, outcome, now, to_apply, obsolete, rollout, another_pod=another_pod
    )
    look = next_look(stream, rollout, children, now)
    if look is not None:
        planned = replace(planned, requeue_after=min(look, planned.requeue_after or look))
    is_done = is_settled(rollout) and outcome.not_applied is None
    is_done = is_done and outcome.state is not StreamState.COMPLETED  # its driver may be let go
    planned = replace(planned, steady=is_done and not (to_apply or obsolete))
    if children.claim is not None and not stream.has_status:
        found = checkpoint_found(children.claim.name)
        return replace(planned, events=(found, *planned.events))
    return planned


def reported(stream: ObservedStream, children: ObservedChildren, now: datetime) -> PlannedChanges:
    """The step for a report of the driver after a steady decision, if nothing else has changed."""
    desired = stream.desired
    assert desired is not None
    outcome = _running(stream, desired, children, now)
    rollout = next_rollout(stream, outcome, children, now)
    return replace(_decide(stream, children, outcome, now, rollout=rollout), steady=True)


def _running(
    stream: ObservedStream, desired: Revision, children: ObservedChildren, now: datetime
) -> Outcome:
    """What runs of a stream whose spec is applied."""
    if desired.stream.spec.suspend:
        return Outcome.of(assess_suspended(children.driver_pod, now))
    if _stays_finished(stream, desired, children):
        driver = assess_finished(children.driver_pod)
    else:
        driver = assess_driver(stream.name, desired.pod_hash, children, stream.status, now)
    rollout = stream.status.rollout
    if stream.given_up is not None and rollout is not None and rollout.failure is not None:
        return Outcome.of(driver, rolled_back(rollout, desired.spec_hash))
    untaken = not_taken(desired, children, now)
    if untaken is not None and not driver.ready:  # what ails the query before is no news
        driver = Assessment(StreamState.STARTING, untaken.reason, untaken.message)
    return Outcome.of(driver, untaken)


def _stays_finished(stream: ObservedStream, desired: Revision, children: ObservedChildren) -> bool:
    """Whether the revision has finished, and does not run again by itself.

    A driver that was let go stays away, also if ttlSecondsAfterFinished is removed. Without it, a
    pod that takes the place of the one that has finished runs the query again.
    """
    owner, ttl = children.stateful_set, desired.stream.spec.ttl_seconds_after_finished
    is_let_go = owner is not None and owner.has_finished
    return stream.has_finished(desired.spec_hash) and (is_let_go or ttl is not None)


def _lets_go(
    stream: ObservedStream, desired: Revision, children: ObservedChildren, now: datetime
) -> bool:
    """Whether a revision that has finished is to have no driver any more."""
    owner, pod = children.stateful_set, children.driver_pod
    if not _stays_finished(stream, desired, children):
        return False
    if pod is None or pod.terminating or (owner is not None and owner.has_finished):
        return True
    left = _time_left(desired, stream.status, now)
    runs_again = pod.report is None or pod.report.state is not QueryState.COMPLETED
    return runs_again or (left is not None and left <= timedelta(0))


def _time_left(desired: Revision | None, status: StreamStatus, now: datetime) -> timedelta | None:
    """Until the driver is let go; negative after it, and None if it is not to be."""
    ttl = desired.stream.spec.ttl_seconds_after_finished if desired is not None else None
    if ttl is None or status.completion_time is None:
        return None
    return status.completion_time + timedelta(seconds=ttl) - now


def unapplied(
    stream: ObservedStream,
    children: ObservedChildren,
    cause: NotApplied,
    now: datetime,
    apply: tuple[Manifest, ...] = (),
    delete: tuple[Ref, ...] = (),
    rollout: Rollout | None = None,
) -> PlannedChanges:
    """A stream whose spec is not applied. What was applied before still runs, and is assessed.

    `rollout` is that of a spec of which all that it runs with is applied.
    """
    owner = children.stateful_set
    driver = None
    if owner is not None and owner.is_owned_by(stream.uid):
        if not owner.scaled_to_zero:
            driver = assess_driver(stream.name, owner.pod_hash, children, stream.status, now)
        elif owner.has_finished and not stream.suspended:
            driver = assess_finished(children.driver_pod)
        else:
            driver = assess_suspended(children.driver_pod, now)
        is_on_volume = not owner.checkpoint_location
        if is_on_volume and children.claim is None and not driver.ready:
            driver = None  # it cannot start without the claim, which the cause is about
    before = stream.status.rollout
    is_wanted = cause.deliberate or stream.suspended
    rollout = rollout or (not_tried(before) if is_wanted else before)
    return _decide(stream, children, Outcome.of(driver, cause), now, apply, delete, rollout)


def failed(
    stream: ObservedStream, error: Exception, now: datetime, since: datetime
) -> PlannedChanges:
    """The changes when the stream cannot be reconciled since then: to report that, and no more."""
    if isinstance(error, ApiError):
        message = f"The operator could not read the stream's objects and retries: {error}"
    else:
        message = (
            f"The operator failed with {type(error).__name__} and retries; what ran before keeps "
            f"running. This is a fault of Penstock: its log says where"
        )
    status = failed_status(stream, message, now, since)
    if status == stream.status or stream.terminating:
        return PlannedChanges()
    return PlannedChanges(status_manifest=status_manifest(stream, status), status=status)


def _decide(
    stream: ObservedStream,
    children: ObservedChildren,
    outcome: Outcome,
    now: datetime,
    apply: tuple[Manifest, ...] = (),
    delete: tuple[Ref, ...] = (),
    rollout: Rollout | None = None,
    *,
    another_pod: bool = False,
) -> PlannedChanges:
    pod, owner = children.driver_pod, children.stateful_set
    warnings = _warnings(stream, children)
    wanted = replace(_wanted_driver(owner, apply), another_pod=another_pod)
    update = plan_status(stream, outcome, pod, now, warnings, wanted, rollout)
    changed = update.status != stream.status
    requeue = _REQUEUE_SETTLED if outcome.settled or outcome.stalled else _REQUEUE_CHANGING
    waits_for_pod = owner is not None and pod is None and not outcome.settled
    if (waits_for_pod and not outcome.obstacles) or outcome.state is StreamState.WAITING_FOR_CORES:
        waited = now - (not_ready_since(stream.status) or now)
        requeue = min(requeue, max(_REQUEUE_UNWATCHED, waited / 2))
    if outcome.not_applied is not None and outcome.not_applied.retry_in is not None:
        requeue = min(requeue, outcome.not_applied.retry_in)
    left = _time_left(stream.desired, update.status, now)
    is_new = update.status.completion_time != stream.status.completion_time
    if left is not None and (left > timedelta(0) or is_new):
        requeue = min(requeue, left if left < _REQUEUE_EXACT else left * 2 / 3)
    return PlannedChanges(
        apply=apply,
        delete=delete,
        status_manifest=status_manifest(stream, update.status) if changed else None,
        events=stream_events(stream.status, update.status) if changed else (),
        requeue_after=min(update.numbers_due_in or requeue, requeue),
        status=update.status,
        counts=_counted(update.status) != _counted(stream.status),
    )


def _counted(status: StreamStatus) -> object:
    rollout = status.rollout
    return (
        status.restarts,
        status.internal,
        status.completion_time,
        holds(status, "Stalled"),
        rollout and (rollout.failure, rollout.last_ready_revision),
    )


def _wanted_driver(owner: StatefulSet | None, apply: Iterable[Manifest]) -> WantedDriver:
    if owner is None:
        return WantedDriver()
    changed = (StatefulSet(each) for each in apply if each["kind"] == kinds.STATEFUL_SET.kind)
    owners = (owner, *changed)
    return WantedDriver(
        frozenset(each.pod_hash for each in owners),
        owner.update_revision,
        stopped=any(each.scaled_to_zero for each in owners),
    )


def _warnings(stream: ObservedStream, children: ObservedChildren) -> tuple[Problem, ...]:
    """What will go wrong with what a running stream needs, and what its checkpoint overrides."""
    claim, owner, pod = children.claim, children.stateful_set, children.driver_pod
    desired, problems = stream.desired, list[Problem]()
    deleted = why_deleted(claim) if claim and owner else None
    if deleted is not None:
        problems.append(deleted)
    has_commits = stream.status.epoch is not None
    begun = owner if owner and owner.checkpoint_location else claim
    problems.extend(filter(None, map(why_held, children.applied())))
    if pod and owner and children.driver_account is None and pod.account_name != owner.name:
        problems.append(_account_missing(pod.account_name))
    if pod and pod.report and pod.report.warning:
        problems.append(Problem(pod.report.warning.reason, pod.report.warning.message))
    # Last: the first one is the condition's reason, by which an alert finds what may be lost.
    if begun and desired and has_commits and starts_elsewhere(desired, begun):
        problems.append(_START_IGNORED)
    return tuple(problems)


def _account_missing(name: str) -> Problem:
    """The stream's own account, which has the StatefulSet's name, is created again instead."""
    return Problem(
        "ServiceAccountMissing",
        f"The ServiceAccount {name} of the driver is gone: the query can have no new executors, "
        "and Kubernetes would create no other pod. Create the account again, and the operator "
        "replaces the pod",
    )


def _lacks_checkpoint(
    stream: ObservedStream, desired: Revision, children: ObservedChildren
) -> bool:
    """Whether the volume of the stream's checkpoint is gone, also if the status was lost.

    The claim is created before the StatefulSet, so the latter shows that there was one. A new
    generation needs no other, unless it begins where another one has arrived; of a source other
    than Kafka it never does.
    """
    if desired.checkpoint_location or children.claim is not None:
        return False
    wanted, effective = desired.stream.spec.checkpoint, stream.status.effective
    ran = None if effective is None else effective.checkpoint_generation
    begins = wanted.start_from is None or wanted.start_from.generation is None
    if begins and ran is not None and wanted.generation > ran:
        return False
    return stream.status.epoch is not None or children.stateful_set is not None


def _foreign_objects(
    desired: Revision, wanted: Iterable[Manifest], children: ObservedChildren
) -> list[str]:
    """The objects of the stream's names that do not belong to it.

    Its own have its UID as an owner, or its label (a retained claim has no owner), or the operator
    has written them and somebody has removed both.
    """
    volume = desired.stream.spec.checkpoint.claimed_volume
    adopt = volume is not None and volume.adopt
    found = [
        there
        for there in filter(None, map(children.find, wanted))
        if not there.is_owned_by(desired.uid)
        and there.labels.get(naming.LABEL_STREAM) != desired.name
        and not there.is_written_by(naming.FIELD_MANAGER)
        and not (adopt and there.kind is kinds.CLAIM)
    ]
    return sorted(map(str, found))


def _retained_claim(stream: ObservedStream, children: ObservedChildren) -> tuple[Manifest, ...]:
    """The claim without its owner, if the spec says Retain and the claim would still be deleted.

    This needs no valid spec: whoever corrects it later may delete the stream before.
    """
    claim = children.claim
    if claim is None or not stream.retains_checkpoint:
        return ()
    if not claim.is_owned_by(stream.uid) or claim.terminating:
        return ()
    return (with_applied_hash(checkpoint_claim.without_owner(claim)),)


def _stopped_driver(stream: ObservedStream, children: ObservedChildren) -> tuple[Manifest, ...]:
    """The StatefulSet of a suspended stream, without a driver, if there still is one.

    This needs no spec that can be applied: who wants to stop a stream need not correct it first.
    """
    found = children.stateful_set
    if not stream.suspended or found is None or found.scaled_to_zero:
        return ()
    if not found.is_owned_by(stream.uid) or found.terminating:
        return ()
    return (with_applied_hash(scaled_to_zero(found)),)


def _may_have_commits(stream: ObservedStream, claim: Claim | None) -> bool:
    """Whether a claim's checkpoint has commits, or may have them from an earlier stream."""
    is_older = claim is not None and claim.created < stream.created
    return stream.status.epoch is not None or is_older


def _desired_objects(
    stream: ObservedStream, desired: Revision, children: ObservedChildren, now: datetime
) -> tuple[Manifest, ...]:
    """All objects of a stream, each after those that it refers to."""
    optional = (rbac_and_network.service_account(desired), rbac_and_network.network_policy(desired))
    before_driver = (
        *(each for each in optional if each is not None),
        rbac_and_network.role(desired),
        rbac_and_network.role_binding(desired),
        config_map(desired),
    )
    let_go, found = _lets_go(stream, desired, children, now), children.stateful_set
    driver = driver_stateful_set(desired, children.claim, let_go=let_go)
    pod = children.driver_pod
    runs = pod is not None and not pod.terminating
    if found is not None and runs and is_of_another_operator(driver, found):
        driver = with_template_of(driver, found)
    before = tuple(map(with_applied_hash, before_driver))
    if desired.checkpoint_location:
        driver = with_start_of(driver, found, begun=stream.status.epoch is not None)
        return (*before, with_applied_hash(driver))
    driver = with_applied_hash(driver)
    asked = with_applied_hash(checkpoint_claim.claim(desired))
    claim = checkpoint_claim.claim_as_allowed(
        asked, children.claim, begun=_may_have_commits(stream, children.claim)
    )
    # An existing claim comes last, so that what it is not to delay is written first.
    last = (claim, driver) if children.claim is None else (driver, claim)
    return (*before, *last)


def _is_due(manifest: Manifest, children: ObservedChildren) -> bool:
    found = children.find(manifest)
    if found is None:
        return True
    settled = children.settled.get(found.uid)
    return not up_to_date(manifest, found, settled) and not found.terminating


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
            for owner in each.owners
        )
    ]
    if children.stateful_set is None and claim is not None and claim.terminating:
        previous.append(claim)
    return sorted(set(map(str, previous)))
