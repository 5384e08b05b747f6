"""How often a stream was restarted, at which level of the ladder, and its last failure. Pure.

The counts are in the status and nowhere else. The bookkeeping next to them says which of the
driver's own counters they include, so the operator counts each restart once, even if it was away
or reconciles twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.v1alpha1.status import Internal, LastFailure, Restarts, StreamStatus
from penstock.cluster.pods import DriverPod
from penstock.contract.driver_report import DriverReport


@dataclass(frozen=True)
class WantedDriver:
    """The driver that the StatefulSet asks for. The defaults fit any driver."""

    pod_hashes: frozenset[str] = frozenset()
    """As the StatefulSet is, and as it is being changed to."""
    revision: str = ""
    """Empty until the StatefulSet's controller has seen its newest template."""
    stopped: bool = False
    """Somebody wants no driver."""
    another_pod: bool = False
    """The operator deletes the pod, whose driver does not take an edit."""


ANY_DRIVER = WantedDriver()


@dataclass(frozen=True)
class RestartHistory:
    """The part of the status that accumulates."""

    restarts: Restarts
    internal: Internal | None
    last_failure: LastFailure | None


def update_history(
    before: StreamStatus, pod: DriverPod | None, wanted_driver: WantedDriver = ANY_DRIVER
) -> RestartHistory:
    """The history of the status, with what the driver's pod shows added to it.

    A pod that replaces one like it is a restart, unless somebody's edit ended the earlier
    one: two edits that follow each other may lead back to the first spec.
    """
    restarts, counted = before.restarts or Restarts(), before.internal
    if counted is not None:
        counted = counted.model_copy(
            update={"replaced_on_purpose": _replaced_on_purpose(counted, pod, wanted_driver)}
        )
    if pod is None:
        counted = None if wanted_driver.stopped else counted
        return RestartHistory(restarts, counted, before.last_failure)
    new_pod = counted is None or counted.driver_pod_uid != pod.uid
    replaced = (
        new_pod
        and counted is not None
        and counted.pod_hash == pod.pod_hash
        and not counted.replaced_on_purpose
    )
    if counted is None or new_pod:
        counted = Internal(driver_pod_uid=pod.uid, pod_hash=pod.pod_hash)
    report = pod.report
    query_restarts = report.query_restarts if report else counted.query_restarts
    process_restarts = report.process_restarts if report else counted.process_restarts
    return RestartHistory(
        restarts=_add(
            restarts,
            query=_increase(counted.query_restarts, query_restarts),
            process=max(0, pod.container_restarts - counted.container_restarts)
            + _increase(counted.process_restarts, process_restarts),
            pod=int(replaced),
        ),
        internal=counted.model_copy(
            update={
                "container_restarts": max(pod.container_restarts, counted.container_restarts),
                "process_restarts": process_restarts,
                "query_restarts": query_restarts,
            }
        ),
        last_failure=_last_failure(before, pod, report, replaced=replaced),
    )


def _replaced_on_purpose(counted: Internal, pod: DriverPod | None, wanted: WantedDriver) -> bool:
    """Whether somebody's edit ends the counted pod, or has ended it.

    An edit that is undone before the pod is deleted leaves it as it is.
    """
    if wanted.stopped or wanted.another_pod or wanted.pod_hashes - {counted.pod_hash}:
        return True
    if pod is None or pod.uid != counted.driver_pod_uid or wanted.revision == "":
        return counted.replaced_on_purpose
    if pod.revision != wanted.revision:
        return True
    return pod.terminating and counted.replaced_on_purpose


def _increase(counted: int, reported: int) -> int:
    """How many restarts are new. A new driver process counts from zero again."""
    return reported - counted if reported >= counted else reported


def _add(before: Restarts, *, query: int, process: int, pod: int) -> Restarts:
    return Restarts(
        total=before.total + query + process + pod,
        query=before.query + query,
        process=before.process + process,
        pod=before.pod + pod,
    )


def _last_failure(
    before: StreamStatus, pod: DriverPod, report: DriverReport | None, *, replaced: bool
) -> LastFailure | None:
    """The latest failure. Of two in the same second, the driver's report has the later one."""
    reported = report.last_failure if report else None
    known = [_of(pod, reported), before.last_failure, _of(pod, pod.failure)]
    if replaced:
        known.append(
            LastFailure(
                reason="DriverPodReplaced",
                message="The driver's pod was deleted or evicted, or its node was lost",
                permanent=False,
                time=pod.created,
                revision=before.effective and before.effective.revision,
            )
        )
    return max(
        (failure for failure in known if failure is not None),
        key=lambda failure: failure.time,
        default=None,
    )


def _of(pod: DriverPod, failure: LastFailure | None) -> LastFailure | None:
    """A failure with the spec that its driver follows."""
    return failure and failure.model_copy(update={"revision": pod.spec_hash})
