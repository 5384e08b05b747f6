"""Which changes of a status become Kubernetes events. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from penstock.api import group_version
from penstock.api.v1alpha1.status import Cause, StreamState, StreamStatus
from penstock.cluster.kinds import EVENT, Manifest
from penstock.cluster.stream import find_condition, holds
from penstock.cluster.stream_state import SERVICE_ACCOUNT_RECREATED
from penstock.contract import naming
from penstock.controller.situation import ObservedStream

# The API accepts 1024 bytes of a note, and 128 of a reason.
_MAX_NOTE_BYTES = 1000
_MAX_REASON_BYTES = 128
# The parts of a status whose changes cause events.
_BEFORE = {"conditions", "restarts", "last_repair", "last_failure"}
# The driver's reason for records that Kafka deleted before they were read (data_loss.py).
_DATA_LOSS = "DataLoss"
_DEAD_LETTER = "DeadLetter"


@dataclass(frozen=True)
class StreamEvent:
    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def stream_events(before: StreamStatus, after: StreamStatus) -> tuple[StreamEvent, ...]:
    """The events for the change from one status to another."""
    events = _restarts(before, after)
    if _replaces_pod(before, after):
        events.append(_from_condition("Warning", after, "Ready"))
    if _is_new(before, after, "Stalled"):
        events.append(_from_condition("Warning", after, "Stalled"))
    elif holds(after, "Ready") != holds(before, "Ready") and not events:
        events.append(_from_condition("Warning" if _fails(after) else "Normal", after, "Ready"))
    if _is_new(before, after, "Warning"):
        events.append(_from_condition("Warning", after, "Warning"))
    return (*events, *_repaired(before, after), *_without_records(before, after))


def _replaces_pod(before: StreamStatus, after: StreamStatus) -> bool:
    """Whether the operator replaces a pod, also of a stream that was not Ready before."""
    then, now = find_condition(before, "Ready"), find_condition(after, "Ready")
    is_said = now is not None and now.reason == SERVICE_ACCOUNT_RECREATED
    return is_said and (then is None or then.reason != SERVICE_ACCOUNT_RECREATED)


def checkpoint_found(claim: str) -> StreamEvent:
    """The event for a new stream that uses the volume of an earlier stream of its name."""
    return StreamEvent(
        "Normal",
        "CheckpointFound",
        f"The stream continues from the checkpoint in the PersistentVolumeClaim {claim}",
    )


def image_stopped(image: str) -> StreamEvent:
    """The event for a stream that is one of too many with which a new default image did not run."""
    return StreamEvent(
        "Warning",
        "ImageRolloutStopped",
        f"This stream and others do not run with the operator's image {image}, so no other stream "
        "gets it",
    )


def event_manifest(event: StreamEvent, stream: ObservedStream, now: datetime) -> Manifest:
    """The Event object.

    Its name is a hash of its content and of the status that it follows. So it is created once,
    however often the operator repeats the change that caused it.
    """
    before = stream.status.model_dump_json(include=_BEFORE)
    text = "/".join((stream.uid, event.reason, event.note, before))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{stream.name}.{digest}", "namespace": stream.namespace},
        "eventTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "type": event.type,
        "reason": _cut(event.reason, _MAX_REASON_BYTES),
        "note": _cut(event.note, _MAX_NOTE_BYTES),
        "action": "Reconcile",
        "reportingController": f"{group_version.GROUP}/operator",
        "reportingInstance": naming.FIELD_MANAGER,
        "regarding": {
            "apiVersion": group_version.API_VERSION,
            "kind": group_version.KIND,
            "name": stream.name,
            "namespace": stream.namespace,
            "uid": stream.uid,
        },
    }


def _cut(text: str, size: int) -> str:
    """As many of its characters as fit into so many bytes of UTF-8."""
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def _restarts(before: StreamStatus, after: StreamStatus) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    why = f": {after.last_failure.message}" if after.last_failure else ""
    for level, reason, what in (
        ("query", "QueryRestarted", "The query was restarted from its checkpoint"),
        ("process", "DriverRestarted", "The driver's container was restarted"),
        ("pod", "DriverPodReplaced", "The driver's pod was replaced"),
    ):
        if _count(after, level) > _count(before, level):
            events.append(StreamEvent("Warning", reason, f"{what}{why}"))
    return events


def _repaired(before: StreamStatus, after: StreamStatus) -> list[StreamEvent]:
    """A repair after a crash gets no event of its own, because the restart already has one."""
    repair = after.last_repair
    if repair is None or repair == before.last_repair or repair.cause is Cause.CRASH:
        return []
    return [StreamEvent("Normal", "CheckpointRepaired", f"{repair.cause}: {repair.message}")]


def _without_records(before: StreamStatus, after: StreamStatus) -> list[StreamEvent]:
    """Records that the spec lets the stream do without. It keeps running: no condition says it."""
    failure = after.last_failure
    if failure is None or failure == before.last_failure or failure.permanent:
        return []
    if failure.reason == _DATA_LOSS:
        return [StreamEvent("Warning", "RecordsLost", failure.message)]
    if failure.reason == _DEAD_LETTER:
        return [StreamEvent("Warning", "DeadLetter", failure.message)]
    return []


def _count(status: StreamStatus, level: str) -> int:
    return int(getattr(status.restarts, level)) if status.restarts else 0


def _fails(status: StreamStatus) -> bool:
    """Whether a stream is not Ready because something failed, not because of an edit.

    An edit is seen as such before its query waits for cores.
    """
    ready = find_condition(status, "Ready")
    if ready is None or ready.status == "True":
        return False
    has_failed = status.state in (StreamState.RESTARTING, StreamState.WAITING_FOR_CORES)
    return has_failed or ready.reason == "DriverNotReady"


def _from_condition(
    event_type: Literal["Normal", "Warning"], status: StreamStatus, kind: str
) -> StreamEvent:
    condition = find_condition(status, kind)
    assert condition is not None, "the operator always sets all conditions"
    return StreamEvent(event_type, condition.reason, condition.message)


def _is_new(before: StreamStatus, after: StreamStatus, kind: str) -> bool:
    """Whether a condition holds now, and did not hold before for the same reason."""
    then, now = find_condition(before, kind), find_condition(after, kind)
    if now is None or now.status != "True":
        return False
    return then is None or (then.status, then.reason) != (now.status, now.reason)
