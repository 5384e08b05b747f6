"""What is worth an event: a status's changes that people care about. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from penstock.api import group_version
from penstock.api.v1alpha1.status import Cause, Condition, StreamStatus
from penstock.contract import naming
from penstock.controller.objects import EVENT, Manifest

# The API takes 1024 bytes.
_MAX_NOTE = 1000


@dataclass(frozen=True)
class Notice:
    """An event in the making."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def notices(before: StreamStatus, after: StreamStatus) -> tuple[Notice, ...]:
    """What happened between two statuses."""
    found = _restarts(before, after)
    ready, was_ready = _get(after, "Ready"), _get(before, "Ready")
    stalled, was_stalled = _get(after, "Stalled"), _get(before, "Stalled")
    if stalled is not None and _holds(stalled):
        if not _holds(was_stalled) or _reason(stalled) != _reason(was_stalled):
            found.append(Notice("Warning", stalled.reason, stalled.message))
    elif ready is not None and _holds(ready) != _holds(was_ready) and not found:
        found.append(Notice("Normal", ready.reason, ready.message))
    warning = _get(after, "Warning")
    if warning is not None and _reason(warning) != _reason(_get(before, "Warning")):
        found.append(Notice("Warning", warning.reason, warning.message))
    return (*found, *_repaired(before, after))


def checkpoint_found(claim: str) -> Notice:
    """A new stream found the volume that an earlier one of its name left behind."""
    return Notice(
        "Normal",
        "CheckpointFound",
        f"The stream goes on from the checkpoint in the PersistentVolumeClaim {claim}",
    )


def as_event(notice: Notice, stream: Manifest, now: datetime) -> Manifest:
    """The Event object; its name follows from what it says, so that saying it twice is once."""
    meta = stream["metadata"]
    text = "/".join((meta["uid"], notice.reason, notice.note, now.isoformat()))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{meta['name']}.{digest}", "namespace": meta["namespace"]},
        "eventTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "type": notice.type,
        "reason": notice.reason,
        "note": notice.note[:_MAX_NOTE],
        "action": "Reconcile",
        "reportingController": f"{group_version.GROUP}/operator",
        "reportingInstance": naming.FIELD_MANAGER,
        "regarding": {
            "apiVersion": group_version.API_VERSION,
            "kind": group_version.KIND,
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
    }


def _restarts(before: StreamStatus, after: StreamStatus) -> list[Notice]:
    found: list[Notice] = []
    why = f": {after.last_failure.message}" if after.last_failure else ""
    for level, reason, what in (
        ("query", "QueryRestarted", "The query was restarted from its checkpoint"),
        ("process", "DriverRestarted", "The driver's container was restarted"),
        ("pod", "DriverPodReplaced", "The driver's pod was replaced"),
    ):
        if _count(after, level) > _count(before, level):
            found.append(Notice("Warning", reason, f"{what}{why}"))
    return found


def _repaired(before: StreamStatus, after: StreamStatus) -> list[Notice]:
    """What any crash leaves behind comes with the notice of the restart, and needs none itself."""
    repair = after.last_repair
    if repair is None or repair == before.last_repair or repair.cause is Cause.CRASH:
        return []
    kind: Literal["Normal", "Warning"] = "Warning" if repair.cause is Cause.DAMAGE else "Normal"
    return [Notice(kind, "CheckpointRepaired", f"{repair.cause}: {repair.message}")]


def _count(status: StreamStatus, level: str) -> int:
    return int(getattr(status.restarts, level)) if status.restarts else 0


def _get(status: StreamStatus, kind: str) -> Condition | None:
    return next((each for each in status.conditions if each.type == kind), None)


def _holds(condition: Condition | None) -> bool:
    return condition is not None and condition.status == "True"


def _reason(condition: Condition | None) -> str:
    return condition.reason if condition else ""
