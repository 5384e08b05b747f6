"""Why the current spec of a stream is not applied, or not completely. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.api.problem import sentence
from penstock.api.v1alpha1.status import EditVerdict, Rollout, StreamState
from penstock.cluster.stream_state import Assessment

# How long after a stream did not run with the operator's image it gets that once more. Each time it
# is away for a while, so not soon.
IMAGE_RETRY_INTERVAL = timedelta(hours=6)
CHANGED_BY_OTHERS = "ChangedByOthers"


@dataclass(frozen=True)
class NotApplied:
    """Why the current spec is not applied. What ran before stays, and is looked after."""

    reason: str
    message: str
    retried: bool
    """Whether only time is needed, and the operator retries. Otherwise someone has to act."""
    since: datetime | None = None
    """Since when, if that is known."""
    deliberate: bool = False
    """Whether a person wants it so, for as long as it takes: then nothing is touched."""
    replaces_pod: bool = True
    """Whether a driver's pod with a revoked token is replaced: not if no other could start."""
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


def rolled_back(rollout: Rollout, revision: str) -> NotApplied:
    """The newest spec was given up, or the operator's image, and an earlier one runs."""
    failure = rollout.failure
    assert failure is not None
    why = sentence(f"{failure.reason}: {failure.message}")
    if rollout.default_image and rollout.last_ready_image not in (None, rollout.default_image):
        message = (
            f"The stream did not become Ready with {rollout.default_image}, the operator's image, "
            f"so it runs with {rollout.last_ready_image}, its previous one: {why} It retries after "
            f"{IMAGE_RETRY_INTERVAL // timedelta(hours=1)} hours, or at once if you set "
            "spec.restartedAt. "
            "Install the operator with an image that runs, or name an image in spec.image"
        )
    else:
        message = (
            f"The newest spec did not become Ready, so the last spec that was Ready (revision "
            f"{revision}) runs instead: {why} Correct the spec. To retry the same spec, set "
            "spec.restartedAt"
        )
    return NotApplied("RolledBack", message, retried=False, since=failure.time)


def foreign_object(what: str, more: str) -> NotApplied:
    """Objects that the stream needs exist, and others wrote them. `more`: what else to do."""
    return NotApplied(
        "ForeignObject",
        f"{what}: exists and does not belong to this stream, so Penstock does not touch it. "
        f"Delete or rename it{more}",
        retried=False,
        # It lacks the labels by which objects are watched, so nothing tells of its deletion.
        retry_in=timedelta(seconds=30),
    )
