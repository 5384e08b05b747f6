"""How far a stream is with the operator's default image, by its spec and its status."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1.rollout import RolloutPolicy
from penstock.cluster.lenient_fields import at, mapping, mappings, text, timestamp
from penstock.cluster.objects import Object
from penstock.cluster.stream import Stream

# From the deadline on, until the status says that the edit is given up.
_GIVING_UP = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class StreamImage:
    """Read from the object itself, whatever else is in it: it is asked at each event."""

    named: bool
    """Whether the spec names an image of its own."""
    stopped: bool
    """Whether nothing is to run, or nothing is applied to it."""
    finishes: bool
    """Whether its query ends, so that it gets an image together with an edit."""
    finished: bool
    """Whether its query has ended, so that nothing runs until an edit."""
    default: str
    """The operator's image in the newest revision. Empty without a revision, and if the spec named
    an image of its own then."""
    last_ready: str
    """The image of the last revision that was Ready."""
    was_ready: bool
    """Whether the stream was Ready before the newest revision."""
    ready: bool
    """As far as is known."""
    stalled: bool
    edited: bool
    """Whether the status is about an earlier spec."""
    failed: bool
    """Whether the newest revision is given up."""
    failed_at: datetime | None
    """Since when, if that can be read."""
    until: datetime | None
    """The deadline of a revision that is tried."""

    def is_behind(self, image: str) -> bool:
        """Whether it takes the operator's image, and has yet to get this one."""
        is_other = self.default not in ("", image)
        return is_other and not (self.named or self.stopped or self.finished)

    def has(self, image: str) -> bool:
        """Whether it takes the operator's image, and its newest revision is of this one."""
        return self.default == image and not (self.named or self.stopped)

    @property
    def is_not_applied(self) -> bool:
        """Whether an older spec runs while the newest one is refused (not rolled back)."""
        return self.ready and self.stalled and not self.failed

    def is_tried(self, now: datetime) -> bool:
        return self.until is not None and now < self.until

    def may_change(self, now: datetime) -> bool:
        """Whether another image is the next thing for one that is behind.

        First it must have something to go back to, or have had its time to get it. An edit that was
        given up is not tried again because of an image.
        """
        tries_image = self.last_ready not in ("", self.default)
        if self.failed:
            return tries_image
        if self.is_not_applied or (self.ready and self.edited):
            return False
        return tries_image or not self.is_tried(now - _GIVING_UP)

    def has_failed(self, now: datetime) -> bool:
        """Whether the newest revision does not run, and its image is what is new of it."""
        if self.last_ready == self.default or not self.was_ready or self.finishes:
            return False
        return self.failed or not (self.ready or self.until is None or now < self.until)

    @classmethod
    def of(cls, stream: Object) -> StreamImage:
        spec = mapping(stream.manifest.get("spec"))
        status = mapping(stream.manifest.get("status"))
        rollout = mapping(status.get("rollout"))
        conditions = {
            text(it.get("type")): it.get("status") for it in mappings(status.get("conditions"))
        }
        return cls(
            named=bool(spec.get("image")),
            stopped=spec.get("suspend") is True
            or Stream(stream.manifest).paused
            or stream.terminating,
            finishes=at(spec, "trigger", "availableNow") is not None,
            finished=status.get("completionTime") is not None,
            default=text(rollout.get("defaultImage")),
            last_ready=text(rollout.get("lastReadyImage")),
            was_ready=rollout.get("wasReady") is True,
            ready=conditions.get("Ready") in ("True", "Unknown"),
            stalled=conditions.get("Stalled") == "True",
            edited=stream.generation != status.get("observedGeneration"),
            failed=rollout.get("failure") is not None,
            failed_at=timestamp(at(rollout, "failure", "time")),
            until=_deadline(rollout.get("startTime"), at(spec, "rollout", "deadline")),
        )


def _deadline(start: object, patience: object) -> datetime | None:
    if start is None:
        return None
    try:
        begun = datetime.fromisoformat(text(start))
        lasts = milliseconds(text(patience) or RolloutPolicy().deadline)
        return begun.astimezone(UTC) + timedelta(milliseconds=lasts)
    except (ValueError, OverflowError):
        return None
