"""What Kubernetes, operator and driver say about a stream's objects: their events. Pure.

A refused pod (a quota, Pod Security), a volume that cannot be provisioned and one that cannot be
mounted are in no object's status, only in events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.cluster import fields
from penstock.cluster.fields import at, timestamp
from penstock.cluster.kinds import Manifest

_MAX_MESSAGE_CHARACTERS = 2048
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ClusterEvent:
    """One event about an object."""

    uid: str
    """The UID of the object that it is about."""
    reason: str
    message: str
    time: datetime
    """When it was last observed."""
    kind: str = ""
    """The kind of that object."""
    name: str = ""
    is_warning: bool = True
    count: int = 1
    """How often it was observed."""


def parse_event(raw: Manifest) -> ClusterEvent:
    """Parses an Event of events.k8s.io, by whichever of its fields its author filled in."""
    times = (
        at(raw, "series", "lastObservedTime"),
        raw.get("deprecatedLastTimestamp"),
        raw.get("eventTime"),
        at(raw, "metadata", "creationTimestamp"),
    )
    counts = (at(raw, "series", "count"), raw.get("deprecatedCount"))
    return ClusterEvent(
        uid=fields.text(at(raw, "regarding", "uid")),
        reason=fields.reason(raw.get("reason"), "Warning"),
        message=fields.text(raw.get("note"))[:_MAX_MESSAGE_CHARACTERS],
        time=next(filter(None, map(timestamp, times)), _LONG_AGO),
        kind=fields.text(at(raw, "regarding", "kind")),
        name=fields.text(at(raw, "regarding", "name")),
        is_warning=raw.get("type") == "Warning",
        count=max(1, *(fields.count(each) for each in counts)),
    )


def newest(
    events: Iterable[ClusterEvent], uid: str, since: datetime = _LONG_AGO
) -> ClusterEvent | None:
    """The newest event about the object with this UID, if there is one since then."""
    about = [each for each in events if each.uid == uid and each.time >= since]
    return max(about, key=lambda each: each.time, default=None)
