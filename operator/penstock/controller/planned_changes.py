"""The decision: from a situation to what to change. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from penstock.api.problem import Problem
from penstock.api.v1alpha1.status import Rollout, StreamState, StreamStatus
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest, Ref
from penstock.cluster.objects import StatefulSet
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import holds, not_ready_since
from penstock.cluster.stream_state import (
    Assessment,
    assess_driver,
    assess_finished,
    assess_suspended,
    why_deleted,
    why_held,
)
from penstock.controller.children.checkpoint_claim import starts_elsewhere
from penstock.controller.desired_objects import (
    NO_WRITES,
    Writes,
    retained_claim,
    writes_if_applied,
    writes_if_not_applied,
)
from penstock.controller.edit_acceptance import not_taken
from penstock.controller.gates import why_not_applied
from penstock.controller.rollout import is_settled, next_look, next_rollout, not_tried
from penstock.controller.situation import ObservedStream, Situation
from penstock.controller.status.not_applied import NotApplied, Outcome, rolled_back
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


def reconcile(situation: Situation) -> PlannedChanges:
    """One level-triggered step for every cause: an edit, a failure, a report or a timer."""
    if situation.stream.terminating:
        # Kubernetes deletes the children through their owner references.
        return PlannedChanges(apply=retained_claim(situation), requeue_after=_REQUEUE_SETTLED)
    refusal = why_not_applied(situation)
    if refusal is not None:
        return changes_if_not_applied(situation, refusal, writes_if_not_applied(situation, refusal))
    return changes_if_applied(situation, writes_if_applied(situation))


def changes_if_applied(situation: Situation, writes: Writes = NO_WRITES) -> PlannedChanges:
    """A stream whose spec is applied. No writes: all objects are as they should be."""
    outcome = _running(situation)
    rollout = next_rollout(situation, outcome)
    planned = _planned(situation, outcome, rollout, writes)
    look = next_look(situation, rollout)
    if look is not None:
        planned = replace(planned, requeue_after=min(look, planned.requeue_after or look))
    is_done = is_settled(rollout) and outcome.not_applied is None
    is_done = is_done and outcome.state is not StreamState.COMPLETED  # its driver may be deleted
    planned = replace(planned, steady=is_done and not (writes.apply or writes.delete))
    if situation.claim is not None and not situation.stream.has_status:
        event = checkpoint_found(situation.claim.name)
        return replace(planned, events=(event, *planned.events))
    return planned


def changes_if_not_applied(
    situation: Situation,
    cause: NotApplied,
    writes: Writes = NO_WRITES,
    *,
    begun: Rollout | None = None,
) -> PlannedChanges:
    """A stream whose spec is not applied. What was applied before still runs, and is assessed.

    `begun` is the rollout of a spec of which all that it runs with is applied.
    """
    before = situation.stream.status.rollout
    is_meant = cause.deliberate or situation.stream.suspended
    rollout = begun or (not_tried(before) if is_meant else before)
    outcome = Outcome.of(_still_running(situation), cause)
    return _planned(situation, outcome, rollout, writes)


def _running(situation: Situation) -> Outcome:
    """What runs of a stream whose spec is applied."""
    stream, desired = situation.stream, situation.desired
    if desired.stream.spec.suspend:
        return Outcome.of(assess_suspended(situation.pod, situation.now))
    if situation.stays_finished:
        driver = assess_finished(situation.pod)
    else:
        driver = assess_driver(stream, desired.pod_hash, situation.children, situation.now)
    rollout = stream.status.rollout
    if stream.given_up is not None and rollout is not None and rollout.failure is not None:
        return Outcome.of(driver, rolled_back(rollout, desired.spec_hash))
    untaken = not_taken(situation)
    if untaken is not None and not driver.ready:  # what ails the query before is no news
        driver = Assessment(StreamState.STARTING, untaken.reason, untaken.message)
    return Outcome.of(driver, untaken)


def _still_running(situation: Situation) -> Assessment | None:
    """What runs of a stream whose spec is not applied; None if nothing of it can."""
    stream, owner, claim = situation.stream, situation.owner, situation.claim
    if owner is None or not owner.is_owned_by(stream.uid):
        return None
    if not owner.scaled_to_zero:
        driver = assess_driver(stream, owner.pod_hash, situation.children, situation.now)
    elif owner.has_finished and not stream.suspended:
        driver = assess_finished(situation.pod)
    else:
        driver = assess_suspended(situation.pod, situation.now)
    lacks_claim = claim is None and not owner.checkpoint_location
    return None if lacks_claim and not driver.ready else driver  # the cause is about the claim


def changes_after_failure(
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


def _planned(
    situation: Situation, outcome: Outcome, rollout: Rollout | None, writes: Writes = NO_WRITES
) -> PlannedChanges:
    """What is written, with the status that follows, and when to look again."""
    stream, pod, now = situation.stream, situation.pod, situation.now
    asked = _asked_for(situation, writes)
    update = plan_status(stream, outcome, pod, now, _warnings(situation), asked, rollout)
    changed = update.status != stream.status
    look = _next_look(situation, outcome, update.status)
    return PlannedChanges(
        apply=writes.apply,
        delete=writes.delete,
        status_manifest=status_manifest(stream, update.status) if changed else None,
        events=stream_events(stream.status, update.status) if changed else (),
        requeue_after=min(update.numbers_due_in or look, look),
        status=update.status,
        counts=_counted(update.status) != _counted(stream.status),
    )


def _next_look(situation: Situation, outcome: Outcome, status: StreamStatus) -> timedelta:
    """When to look again, however quiet all is."""
    before, now = situation.stream.status, situation.now
    look = _REQUEUE_SETTLED if outcome.settled or outcome.stalled else _REQUEUE_CHANGING
    waits_for_pod = situation.owner is not None and situation.pod is None and not outcome.settled
    if (waits_for_pod and not outcome.obstacles) or outcome.state is StreamState.WAITING_FOR_CORES:
        waited = now - (not_ready_since(before) or now)
        look = min(look, max(_REQUEUE_UNWATCHED, waited / 2))
    if outcome.not_applied is not None and outcome.not_applied.retry_in is not None:
        look = min(look, outcome.not_applied.retry_in)
    remaining = situation.until_driver_deleted(status)
    is_new = status.completion_time != before.completion_time
    if remaining is not None and (remaining > timedelta(0) or is_new):
        look = min(look, remaining if remaining < _REQUEUE_EXACT else remaining * 2 / 3)
    return look


def _counted(status: StreamStatus) -> object:
    rollout = status.rollout
    return (
        status.restarts,
        status.internal,
        status.completion_time,
        holds(status, "Stalled"),
        rollout and (rollout.failure, rollout.last_ready_revision),
    )


def _asked_for(situation: Situation, writes: Writes) -> WantedDriver:
    """The driver that the StatefulSet asks for, as it is and as it is being changed to."""
    owner = situation.owner
    if owner is None:
        return WantedDriver(another_pod=writes.another_pod)
    changed = (it for it in writes.apply if it["kind"] == kinds.STATEFUL_SET.kind)
    owners = (owner, *map(StatefulSet, changed))
    return WantedDriver(
        frozenset(owner.pod_hash for owner in owners),
        owner.update_revision,
        stopped=any(owner.scaled_to_zero for owner in owners),
        another_pod=writes.another_pod,
    )


def _warnings(situation: Situation) -> tuple[Problem, ...]:
    """What will go wrong with what a running stream needs, and what its checkpoint overrides."""
    stream, children = situation.stream, situation.children
    claim, owner, pod = situation.claim, situation.owner, situation.pod
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
