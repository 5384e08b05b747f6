"""Why the newest spec of a stream is not applied: gates that a situation passes in order. Pure."""

from __future__ import annotations

from datetime import timedelta

from penstock.api.problem import sentence
from penstock.contract import naming
from penstock.contract.reason_table import APPLY_ELSEWHERE, HIGHER_GENERATION
from penstock.controller.edit_acceptance import not_accepted_by_driver
from penstock.controller.situation import Situation
from penstock.controller.status.not_applied import NotApplied, foreign_object


def why_not_applied(situation: Situation) -> NotApplied | None:
    """What the first closed gate says; None if the spec is applied."""
    return next(filter(None, (gate(situation) for gate in GATES)), None)


def paused(situation: Situation) -> NotApplied | None:
    """A person works on the stream's objects, and the operator leaves them alone."""
    if not situation.stream.paused:
        return None
    return NotApplied(
        "ReconciliationPaused",
        f"The operator changes none of the stream's objects while the stream has the annotation "
        f"{naming.ANNOTATION_PAUSE}. Remove the annotation when the maintenance is over",
        retried=True,
        deliberate=True,
    )


def invalid_spec(situation: Situation) -> NotApplied | None:
    """The spec cannot run. A stream that ran before keeps running: an edit must not stop it."""
    if situation.stream.desired is not None:
        return None
    problems = situation.stream.problems
    message = "; ".join(problem.message for problem in problems)
    if situation.owner is not None:
        runs = situation.pod is not None and situation.pod.ready
        does = "keeps running" if runs else "stays applied"
        message = f"{sentence(message)} The last valid spec {does}"
    return NotApplied(problems[0].reason, message, retried=False)


def objects_of_previous_stream(situation: Situation) -> NotApplied | None:
    """Kubernetes still removes the objects of a deleted stream of the same name."""
    if not situation.previous:
        return None
    return NotApplied(
        "WaitingForDeletion",
        "Kubernetes is still removing objects of a deleted stream of this name: "
        f"{', '.join(situation.previous)}",
        retried=True,
        # They may be of another class, and so not be watched.
        retry_in=timedelta(seconds=5),
    )


def objects_of_others(situation: Situation) -> NotApplied | None:
    """Objects that this stream needs exist, and Penstock did not create them for it."""
    names = situation.foreign
    if not names:
        return None
    claim = f"PersistentVolumeClaim {naming.checkpoint_claim_name(situation.stream.name)}"
    adopt = ", or set spec.checkpoint.volume.adopt: true to use it" if claim in names else ""
    return foreign_object(", ".join(names), f"{adopt}, or give the stream another name")


def checkpoint_moved(situation: Situation) -> NotApplied | None:
    """The spec says another place than that of the checkpoint."""
    owner, desired_location = situation.owner, situation.desired.checkpoint_location
    if owner is None or not owner.is_owned_by(situation.stream.uid):
        return None
    if owner.checkpoint_location == desired_location:
        return None
    at, to = (
        f"in {it}" if it else "on a volume" for it in (owner.checkpoint_location, desired_location)
    )
    return NotApplied(
        "CheckpointElsewhere",
        f"The stream's checkpoint is {at}, but the spec, or the operator's streamDefaults, puts it "
        f"{to}. Penstock cannot move a checkpoint. The earlier spec keeps running. Correct "
        f"spec.checkpoint; or {APPLY_ELSEWHERE}",
        retried=False,
    )


def checkpoint_missing(situation: Situation) -> NotApplied | None:
    """The volume of the stream's checkpoint is gone; also found if the status was lost.

    The claim is created before the StatefulSet, so the latter shows that there was one. A new
    generation needs no other, unless it begins where another one has arrived; of a source other
    than Kafka it never does.
    """
    desired, status = situation.desired, situation.stream.status
    if desired.checkpoint_location or situation.claim is not None:
        return None
    checkpoint, effective = desired.stream.spec.checkpoint, status.effective
    ran = None if effective is None else effective.checkpoint_generation
    begins = checkpoint.start_from is None or checkpoint.start_from.generation is None
    is_new = begins and ran is not None and checkpoint.generation > ran
    if is_new or (status.epoch is None and situation.owner is None):
        return None
    claim = naming.checkpoint_claim_name(situation.stream.name)
    return NotApplied(
        "CheckpointMissing",
        f"The PersistentVolumeClaim {claim} with the stream's checkpoint is gone. Restore it "
        f"under that name; or {HIGHER_GENERATION}",
        retried=False,
        replaces_pod=False,
    )


GATES = (
    paused,
    invalid_spec,
    objects_of_previous_stream,
    objects_of_others,
    checkpoint_moved,
    checkpoint_missing,
    not_accepted_by_driver,
)
