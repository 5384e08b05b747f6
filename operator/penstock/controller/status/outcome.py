"""Why the current spec of a stream is not applied, or not completely. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from penstock.api.problem import Problem, sentence
from penstock.api.v1alpha1.status import EditVerdict, Rollout, StreamState
from penstock.cluster.assessment import Assessment
from penstock.contract import naming
from penstock.contract.reason_table import APPLY_ELSEWHERE, HIGHER_GENERATION

# How long after a stream did not run with the operator's image it gets that once more. Each time it
# is away for a while, so not soon.
IMAGE_AGAIN = timedelta(hours=6)
CHANGED_BY_OTHERS = "ChangedByOthers"
_ADOPT = "spec.checkpoint.volume.adopt"


@dataclass(frozen=True)
class NotApplied:
    """Why the current spec is not applied. What ran before may still run."""

    reason: str
    message: str
    retried: bool
    """Whether only time is needed, and the operator retries. Otherwise someone has to act."""
    since: datetime | None = None
    """Since when, if that is known."""
    deliberate: bool = False
    """Whether a person wants it so, for as long as it takes."""
    retry_in: timedelta | None = None
    """When to try again, if that is known."""
    edit: EditVerdict | None = None
    """The running driver's refusal, if that is the cause."""
    only_claim: bool = False
    """Whether all but an existing claim is applied: the newest spec runs, with that as it is."""


@dataclass(frozen=True)
class Outcome(Assessment):
    """What runs of a stream, and whether that is what its newest spec says."""

    not_applied: NotApplied | None = None
    """Why the newest spec is not applied; None if it is."""
    has_driver: bool = True
    """False if the spec is not applied, and no driver of an earlier one is there to assess."""

    @classmethod
    def of(cls, driver: Assessment | None, cause: NotApplied | None = None) -> Outcome:
        """What runs decides, if anything does."""
        if driver is not None:
            parts = (driver.state, driver.reason, driver.message, driver.obstacles)
            return cls(*parts, not_applied=cause)
        assert cause is not None, "either a driver is assessed, or something keeps it from that"
        state = StreamState.PENDING if cause.retried else StreamState.STALLED
        return cls(state, cause.reason, cause.message, not_applied=cause, has_driver=False)

    @property
    def settled(self) -> bool:
        """Whether what runs is what its spec says, so that nothing is expected to change."""
        return self.ready or self.state is StreamState.SUSPENDED

    @property
    def stalled(self) -> bool:
        """Whether someone must act before the stream does what its spec says."""
        refused = self.not_applied is not None and not self.not_applied.retried
        return refused or self.state is StreamState.STALLED


def paused() -> NotApplied:
    """A person works on the stream's objects, and the operator leaves them alone."""
    return NotApplied(
        "ReconciliationPaused",
        f"The operator changes none of the stream's objects while the stream has the annotation "
        f"{naming.ANNOTATION_PAUSE}. Remove the annotation when the maintenance is over",
        retried=True,
        deliberate=True,
    )


def invalid_spec(problems: Sequence[Problem], *, is_applied: bool, runs: bool) -> NotApplied:
    """The spec cannot run. A stream that ran before keeps running: an edit must not stop it.

    `is_applied`: whether an earlier spec is, and `runs`, whether it also runs.
    """
    message = "; ".join(each.message for each in problems)
    if is_applied:
        does = "keeps running" if runs else "stays applied"
        message = f"{sentence(message)} The last valid spec {does}"
    return NotApplied(problems[0].reason, message, retried=False)


def edit_to_judge(retry_in: timedelta) -> NotApplied:
    """The running driver asks Spark whether it accepts the edit."""
    return NotApplied(
        "JudgingEdit",
        "The running driver asks Spark whether it accepts the edited spec, before anything is "
        "replaced",
        retried=True,
        retry_in=retry_in,
    )


def edit_to_take(applied_at: datetime, retry_in: timedelta) -> NotApplied:
    """The running driver has yet to start the edited query."""
    return NotApplied(
        "ApplyingEdit",
        "The running driver stops its query after a commit, and starts the edited query",
        retried=True,
        since=applied_at,
        retry_in=retry_in,
    )


def refused_edit(edit: EditVerdict) -> NotApplied:
    """The running driver has planned the edited query, and Spark refuses it."""
    assert edit.refusal is not None
    problem = Problem(edit.refusal.reason, edit.refusal.message)
    return replace(invalid_spec([problem], is_applied=True, runs=True), edit=edit)


def rolled_back(rollout: Rollout, revision: str) -> NotApplied:
    """The newest spec was given up, or the operator's image, and an earlier one runs."""
    failure = rollout.failure
    assert failure is not None
    why = sentence(f"{failure.reason}: {failure.message}")
    if rollout.default_image and rollout.last_ready_image not in (None, rollout.default_image):
        said = (
            f"The stream did not become Ready with {rollout.default_image}, the operator's image, "
            f"so it runs with {rollout.last_ready_image}, its previous one: {why} It retries after "
            f"{IMAGE_AGAIN // timedelta(hours=1)} hours, or at once if you set spec.restartedAt. "
            "Install the operator with an image that runs, or name an image in spec.image"
        )
    else:
        said = (
            f"The newest spec did not become Ready, so the last spec that was Ready (revision "
            f"{revision}) runs instead: {why} Correct the spec. To retry the same spec, set "
            "spec.restartedAt"
        )
    return NotApplied("RolledBack", said, retried=False, since=failure.time)


def missing_checkpoint(name: str) -> NotApplied:
    """The stream had a checkpoint, and the volume that held it is gone."""
    claim = naming.checkpoint_claim_name(name)
    return NotApplied(
        "CheckpointMissing",
        f"The PersistentVolumeClaim {claim} with the stream's checkpoint is gone. Restore it "
        f"under that name; or {HIGHER_GENERATION}",
        retried=False,
    )


def checkpoint_elsewhere(was: str, wanted: str) -> NotApplied:
    """The spec moves the checkpoint. `was`, `wanted`: locations; empty for the volume."""
    at, to = (f"in {each}" if each else "on a volume" for each in (was, wanted))
    return NotApplied(
        "CheckpointElsewhere",
        f"The stream's checkpoint is {at}, but the spec, or the operator's streamDefaults, puts it "
        f"{to}. Penstock cannot move a checkpoint. The earlier spec keeps running. Correct "
        f"spec.checkpoint; or {APPLY_ELSEWHERE}",
        retried=False,
    )


def foreign_objects(name: str, names: Sequence[str]) -> NotApplied:
    """Objects that this stream needs exist, and Penstock did not create them for it."""
    claim = f"PersistentVolumeClaim {naming.checkpoint_claim_name(name)}"
    adopt = f", or set {_ADOPT}: true to use it" if claim in names else ""
    return _foreign(", ".join(names), f"{adopt}, or give the stream another name")


def foreign_object(what: str, message: str) -> NotApplied:
    """An object appeared since it was observed to be absent, and others wrote it."""
    return _foreign(what, f": {message}")


def _foreign(what: str, more: str) -> NotApplied:
    return NotApplied(
        "ForeignObject",
        f"{what}: exists and does not belong to this stream, so Penstock does not touch it. "
        f"Delete or rename it{more}",
        retried=False,
        # It lacks the labels by which objects are watched, so nothing tells of its deletion.
        retry_in=timedelta(seconds=30),
    )


def previous_objects(names: Sequence[str]) -> NotApplied:
    """Kubernetes still removes the objects of a deleted stream of the same name."""
    return NotApplied(
        "WaitingForDeletion",
        "Kubernetes is still removing objects of a deleted stream of this name: "
        f"{', '.join(names)}",
        retried=True,
        # They may be of another class, and so not be watched.
        retry_in=timedelta(seconds=5),
    )


def refused_object(
    what: str, message: str, since: datetime, *, immutable: bool = False
) -> NotApplied:
    """The API server refused one of the stream's objects: a quota, a policy or a limit.

    `immutable`: somebody has recreated it with fields that nobody can change.
    """
    remedy = f". If somebody has recreated the {what}, delete it. Then the operator restores it"
    return NotApplied(
        "ApplyRefused",
        f"The API server refused the {what}. The operator retries. An earlier spec keeps "
        f"running: {message}{remedy if immutable else ''}",
        retried=False,
        since=since,
    )


def failed_request(what: str, error: str, since: datetime) -> NotApplied:
    """The API server could not carry out a request: overload, a broken webhook, a conflict."""
    return NotApplied(
        "ApplyFailed",
        f"The operator could not write the {what} and retries. An earlier spec keeps running. If "
        f"this lasts, look at the API server and its admission webhooks: {error}",
        retried=True,
        since=since,
    )


def contested_object(what: str, managers: Sequence[str], since: datetime) -> NotApplied:
    """Another client changes an object as often as the operator restores it."""
    who = f" ({', '.join(managers)})" if managers else ""
    return NotApplied(
        CHANGED_BY_OTHERS,
        f"Another client{who} keeps changing the {what}, so the operator restores it less and less "
        f"often. Stop that client. If it is a second Penstock operator, give each operator "
        f"namespaces (watchNamespaces) or a class (className) of its own",
        retried=True,
        since=since,
    )
