"""A stream's status: from its outcome, its history and the driver's numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.api import group_version
from penstock.api.modes import Mode
from penstock.api.problem import Problem
from penstock.api.v1alpha1.status import (
    CommittedOffset,
    Cores,
    Effective,
    Internal,
    Rollout,
    StreamState,
    StreamStatus,
)
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import MAX_MESSAGE_CHARACTERS
from penstock.cluster.pods import DriverPod
from penstock.contract.driver_report import NUMBERS, DriverReport
from penstock.contract.sizing import may_run_in_driver
from penstock.controller.children.revision import Revision
from penstock.controller.situation import ObservedStream
from penstock.controller.status.conditions import build_conditions, failed_conditions
from penstock.controller.status.not_applied import Outcome
from penstock.controller.status.restart_history import (
    ANY_DRIVER,
    RestartHistory,
    WantedDriver,
    update_history,
)

# A report after the same interval as the last one may come some seconds sooner.
_SLACK = timedelta(seconds=5)


@dataclass(frozen=True)
class StatusUpdate:
    status: StreamStatus
    numbers_due_in: timedelta | None = None
    """How long newer numbers are held back; None if the status has them."""


def plan_status(
    stream: ObservedStream,
    outcome: Outcome,
    pod: DriverPod | None,
    now: datetime,
    warnings: tuple[Problem, ...] = (),
    wanted_driver: WantedDriver = ANY_DRIVER,
    rollout: Rollout | None = None,
) -> StatusUpdate:
    """The status that follows from an outcome; unchanged where only numbers moved just now."""
    effective = _effective(stream.status, stream.desired, pod)
    before = _of_this_checkpoint(stream.status, effective)
    history = update_history(before, pod, wanted_driver)
    report = pod.report if pod is not None and pod.started else None
    committed, omitted = _committed_offsets(before, stream.desired, report)
    restarting = outcome.state is StreamState.RESTARTING
    blocked_since = _blocked_since(before, outcome, now)
    status = StreamStatus(
        observed_generation=stream.generation,
        state=outcome.state,
        conditions=build_conditions(stream, outcome, warnings, now, blocked_since),
        blocked_since=blocked_since,
        mode=_mode(before, stream.desired, pod),
        partitions=_latest(report.partitions if report else None, before.partitions),
        executors=report.registered_executors if report else None,
        cores=_cores(report),
        state_partitions=report.state_partitions if report else None,
        epoch=_latest(report.epoch if report else None, before.epoch),
        last_commit_time=(report.last_commit_time if report else None) or before.last_commit_time,
        completion_time=_completion_time(before, effective, outcome, now),
        lag=report.lag if report else None,
        committed_offsets=committed,
        committed_offsets_omitted=omitted,
        restarts=history.restarts,
        last_failure=history.last_failure,
        rollout=rollout,
        last_repair=(report.last_repair if report else None) or before.last_repair,
        next_retry_time=report.next_retry_time if report and restarting else None,
        effective=effective,
        internal=_internal(stream, outcome, history),
    )
    same_numbers = {name: getattr(stream.status, name) for name in NUMBERS}
    is_unchanged = status.model_copy(update=same_numbers) == stream.status
    wait = _until_numbers(stream, now)
    if is_unchanged and status != stream.status and wait > timedelta(0):
        return StatusUpdate(stream.status, numbers_due_in=wait)
    return StatusUpdate(status)


def status_manifest(stream: ObservedStream, status: StreamStatus) -> Manifest:
    """The manifest to apply. The API server refuses it if the stream has changed meanwhile."""
    return {
        "apiVersion": group_version.API_VERSION,
        "kind": group_version.KIND,
        "metadata": {
            "name": stream.name,
            "namespace": stream.namespace,
            "uid": stream.uid,
            "resourceVersion": stream.version,
        },
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def failed_status(
    stream: ObservedStream, message: str, now: datetime, since: datetime
) -> StreamStatus:
    """The previous status, with conditions that say why the stream cannot be reconciled."""
    conditions = failed_conditions(stream, message, now, since)
    return stream.status.model_copy(update={"conditions": conditions})


def least_status(stream: ObservedStream, status: StreamStatus, refusal: str) -> StreamStatus:
    """The previous status with the new conditions, for one that was refused."""
    warning = f"The API server refused a part of the status: {refusal}"[:MAX_MESSAGE_CHARACTERS]
    update = {"status": "True", "reason": "StatusRefused", "message": warning}
    conditions = [
        condition.model_copy(update=update) if condition.type == "Warning" else condition
        for condition in status.conditions
    ]
    return stream.status.model_copy(
        update={
            "observed_generation": status.observed_generation,
            "state": status.state,
            "conditions": conditions,
        }
    )


def _internal(stream: ObservedStream, outcome: Outcome, history: RestartHistory) -> Internal | None:
    """The bookkeeping. What is refused stays so while something else is reported instead."""
    cause, known = outcome.not_applied, stream.status.internal
    edit = cause.edit if cause is not None else None
    if cause is not None and edit is None and known is not None and known.edit is not None:
        edit = known.edit if known.edit.generation == stream.generation else None
    return history.internal and history.internal.model_copy(update={"edit": edit})


def _blocked_since(before: StreamStatus, outcome: Outcome, now: datetime) -> datetime | None:
    """Since when Kubernetes has said why the stream cannot run.

    An executor that waits may be replaced, and nobody explains yet why the next one waits.
    """
    if outcome.obstacles:
        return before.blocked_since or now
    still_waits = before.state == outcome.state == StreamState.WAITING_FOR_CORES
    return before.blocked_since if still_waits else None


def _generation(before: StreamStatus, report: DriverReport | None) -> int | None:
    """The generation that runs, or that ran last until a driver says that it has another."""
    reported = None if report is None else report.checkpoint_generation
    if reported is None and before.effective is not None:
        return before.effective.checkpoint_generation
    return reported


def _of_this_checkpoint(before: StreamStatus, effective: Effective | None) -> StreamStatus:
    """Without the progress of another generation, once the driver has this one."""
    was, now = (it and it.checkpoint_generation for it in (before.effective, effective))
    if was is None or now is None or was == now:
        return before
    progress = ("epoch", "last_commit_time", "committed_offsets", "committed_offsets_omitted")
    return before.model_copy(update=dict.fromkeys(progress))


def _latest(reported: int | None, before: int | None) -> int | None:
    return before if reported is None else reported


def _committed_offsets(
    before: StreamStatus, desired: Revision | None, report: DriverReport | None
) -> tuple[list[CommittedOffset] | None, int | None]:
    """The reported offsets; the last ones while the driver of a Kafka source reports none."""
    if report is not None and report.committed_offsets is not None:
        return report.committed_offsets, report.committed_offsets_omitted
    if desired is not None and desired.stream.spec.source.kafka is None:
        return None, None
    return before.committed_offsets, before.committed_offsets_omitted


def _completion_time(
    before: StreamStatus, effective: Effective | None, outcome: Outcome, now: datetime
) -> datetime | None:
    """When the revision that runs had read everything; the time before while no driver is known."""
    if not outcome.has_driver:
        return before.completion_time
    if outcome.state is not StreamState.COMPLETED:
        return None
    was, runs = (it and it.revision for it in (before.effective, effective))
    is_same = was is None or runs == was  # which one it was may not be known, as of a lost status
    return (before.completion_time if is_same else None) or now


def _cores(report: DriverReport | None) -> Cores | None:
    if report is None or report.cores is None:
        return None
    return Cores(registered=report.registered_cores or 0, desired=report.cores)


def _until_numbers(stream: ObservedStream, now: datetime) -> timedelta:
    """How long until numbers may be written again, counted from the last write of the status.

    Numbers that come a little early are written now: held back, they would cost another reconcile,
    and be older.
    """
    if stream.status_written is None:
        return timedelta(0)
    interval = stream.numbers_interval
    wait = stream.status_written + interval - now
    # Only clocks that disagree make it longer than the interval.
    return wait if _SLACK < wait <= interval else timedelta(0)


_MODE_NAMES = {
    Mode.CONTINUOUS: "Continuous",
    Mode.MICRO_BATCH: "MicroBatch",
    Mode.ASYNC: "AsyncMicroBatch",
    Mode.REAL_TIME: "RealTime",
    Mode.AVAILABLE_NOW: "AvailableNow",
}


def _mode(before: StreamStatus, desired: Revision | None, pod: DriverPod | None) -> str | None:
    """The name of the query's mode; the one before while the driver pod has another one."""
    if desired is None or (pod is not None and pod.pod_hash != desired.pod_hash):
        return before.mode
    return _MODE_NAMES[desired.stream.spec.trigger.mode]


def _effective(
    before: StreamStatus, desired: Revision | None, pod: DriverPod | None
) -> Effective | None:
    """What the driver follows: until that is the desired spec, what it was before."""
    if desired is None or pod is None or pod.pod_hash != desired.pod_hash:
        return before.effective
    if pod.spec_hash not in (None, desired.spec_hash):
        return before.effective
    reported: dict[str, object] = {
        "checkpoint_generation": _generation(before, pod.report),
        "checkpoint_location": pod.checkpoint_location or None,
    }
    has_executors = pod.report is not None and pod.report.executors
    if not has_executors and may_run_in_driver(desired.stream.spec):
        reported["executor"] = None
    return desired.effective.model_copy(update=reported)
