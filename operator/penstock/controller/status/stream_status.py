"""A stream's status from a verdict, its history and the driver's numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from penstock.api import group_version
from penstock.api.v1alpha1.status import StreamState, StreamStatus
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport
from penstock.controller.objects import Manifest
from penstock.controller.observed.driver_pod import DriverPod
from penstock.controller.status import restarts
from penstock.controller.status.assessment import Verdict
from penstock.controller.status.conditions import _conditions, _warning
from penstock.validation.problems import Problem

# Numbers that move all the time are written at most this often; Prometheus has them faster.
NUMBERS_BEAT = timedelta(seconds=10)


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
        "apiVersion": group_version.API_VERSION,
        "kind": group_version.KIND,
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
    past = restarts.advance(before, pod)
    report = restarts.report_of(pod) if pod is not None and pod.started else None
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
        last_repair=report.last_repair if report and report.last_repair else before.last_repair,
        next_retry=report.next_retry if report and restarting else None,
        driver=past.seen,
    )


def _cores(report: DriverReport | None) -> str | None:
    if report is None or report.cores is None:
        return None
    return f"{report.registered_cores or 0}/{report.cores}"


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
