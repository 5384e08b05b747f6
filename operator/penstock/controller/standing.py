"""A stream's status from a verdict, its history and the driver's numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import ValidationError

from penstock.controller import history
from penstock.controller.kinds import Manifest
from penstock.controller.pods import DriverPod
from penstock.controller.verdict import Verdict
from penstock.stream import naming
from penstock.stream.problems import Problem
from penstock.stream.status import Condition, DriverReport, StreamState, StreamStatus

# Numbers that move all the time are written at most this often; Prometheus has them faster.
NUMBERS_BEAT = timedelta(seconds=10)

# API objects take 32768 bytes in a condition's message; nobody reads that many.
_MAX_MESSAGE = 4096


@dataclass(frozen=True)
class Standing:
    """The status a stream should have, and when held-back numbers are due."""

    status: StreamStatus
    due: timedelta | None = None


def status_before(raw: Manifest) -> StreamStatus:
    """The status as it stands; one that cannot be read is as good as none."""
    try:
        return StreamStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        return StreamStatus()


def stand(
    raw: Manifest,
    verdict: Verdict,
    pod: DriverPod | None,
    now: datetime,
    warnings: Sequence[Problem] = (),
) -> Standing:
    """The status that follows from the verdict, with as little change as the truth allows."""
    before = status_before(raw)
    status = _status(raw, before, verdict, pod, now)
    if warnings:
        warning = _warning(raw, before, warnings, now)
        status = status.model_copy(update={"conditions": [*status.conditions, warning]})
    still = status.model_copy(update={"epoch": before.epoch, "lag": before.lag})
    wait = _until_beat(raw, now)
    if still == before and status != before and wait > timedelta(0):
        return Standing(before, due=wait)
    return Standing(status)


def as_manifest(raw: Manifest, status: StreamStatus) -> Manifest:
    """What is applied: refused by the API server if the stream is not the one that was read."""
    meta = raw["metadata"]
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        },
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _status(
    raw: Manifest,
    before: StreamStatus,
    verdict: Verdict,
    pod: DriverPod | None,
    now: datetime,
) -> StreamStatus:
    past = history.advance(before, pod)
    report = history.report_of(pod) if pod is not None and pod.started else None
    restarting = verdict.state is StreamState.RESTARTING
    return StreamStatus(
        observed_generation=raw["metadata"]["generation"],
        state=verdict.state,
        conditions=_conditions(raw, before, verdict, now),
        partitions=report.partitions
        if report and report.partitions is not None
        else before.partitions,
        executors=report.registered_executors if report else None,
        cores=_cores(report),
        epoch=report.epoch if report and report.epoch is not None else before.epoch,
        lag=report.lag if report else None,
        restarts=past.restarts,
        last_failure=past.last_failure,
        last_mending=report.last_mending if report and report.last_mending else before.last_mending,
        next_retry=report.next_retry if report and restarting else None,
        driver=past.seen,
    )


def _cores(report: DriverReport | None) -> str | None:
    if report is None or report.cores is None:
        return None
    return f"{report.registered_cores or 0}/{report.cores}"


def _conditions(
    raw: Manifest, before: StreamStatus, verdict: Verdict, now: datetime
) -> list[Condition]:
    """Ready, Reconciling and Stalled in the sense of kstatus: of the last two at most one."""
    reconciling = not verdict.ready and not verdict.stalled
    message = verdict.message[:_MAX_MESSAGE]
    told = {
        "Ready": (verdict.ready, verdict.reason, message),
        "Reconciling": (True, verdict.reason, message)
        if reconciling
        else (False, "NothingToDo", "Nothing is being changed"),
        "Stalled": (True, verdict.reason, message)
        if verdict.stalled
        else (False, "NotStalled", "Nothing needs your help"),
    }
    generation = raw["metadata"]["generation"]
    return [
        _condition(kind, holds, reason, words, generation, before, now)
        for kind, (holds, reason, words) in _typed(told)
    ]


def _warning(
    raw: Manifest, before: StreamStatus, warnings: Sequence[Problem], now: datetime
) -> Condition:
    """What runs, but hardly as it was meant; without anything of the kind there is no such type."""
    words = "; ".join(each.message for each in warnings)[:_MAX_MESSAGE]
    generation = raw["metadata"]["generation"]
    return _condition("Warning", True, warnings[0].reason, words, generation, before, now)


ConditionType = Literal["Ready", "Reconciling", "Stalled", "Warning"]
_TYPES: tuple[ConditionType, ...] = ("Ready", "Reconciling", "Stalled")


def _typed(told: Mapping[str, Any]) -> list[tuple[ConditionType, Any]]:
    return [(kind, told[kind]) for kind in _TYPES]


def _condition(
    kind: ConditionType,
    holds: bool,
    reason: str,
    message: str,
    generation: int,
    before: StreamStatus,
    now: datetime,
) -> Condition:
    status: Literal["True", "False"] = "True" if holds else "False"
    last = next((each for each in before.conditions if each.type == kind), None)
    changed = last is None or last.status != status
    return Condition(
        type=kind,
        status=status,
        observed_generation=generation,
        last_transition_time=now if last is None or changed else last.last_transition_time,
        reason=reason,
        message=message,
    )


def _until_beat(raw: Manifest, now: datetime) -> timedelta:
    """How long until numbers may be written again, going by when the status was last written."""
    times = [
        datetime.fromisoformat(entry["time"])
        for entry in raw["metadata"].get("managedFields") or []
        if entry.get("manager") == naming.FIELD_MANAGER
        and entry.get("subresource") == "status"
        and "time" in entry
    ]
    wait = max(times) + NUMBERS_BEAT - now if times else timedelta(0)
    # Longer than the beat is only what clocks that disagree make of it.
    return wait if wait <= NUMBERS_BEAT else timedelta(0)
