"""How often a stream was restarted, by which level of the ladder, and what failed last. Pure.

The counts live in the status and nowhere else. `DriverSeen` says which of the driver's own
counters are already in them, so that an operator that was away, or looks twice, counts each once.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.v1alpha1.status import DriverSeen, LastFailure, Restarts, StreamStatus
from penstock.contract.driver_report import DriverReport
from penstock.controller.observed.driver_pod import DriverPod


@dataclass(frozen=True)
class History:
    """What the status remembers."""

    restarts: Restarts
    seen: DriverSeen | None
    last_failure: LastFailure | None


def advance(before: StreamStatus, pod: DriverPod | None) -> History:
    """The history with what the driver's pod says added to it."""
    restarts, seen = before.restarts or Restarts(), before.driver
    if pod is None:
        return History(restarts, seen, before.last_failure)
    replaced = seen is not None and seen.pod_uid != pod.uid and seen.spec_hash == pod.spec_hash
    if seen is None or seen.pod_uid != pod.uid:
        seen = DriverSeen(pod_uid=pod.uid, spec_hash=pod.spec_hash)
    report = report_of(pod)
    query = report.query_restarts if report else seen.query_restarts
    counted = _add(
        restarts,
        query=_more(seen.query_restarts, query),
        process=max(0, pod.container_restarts - seen.container_restarts),
        pod=int(replaced),
    )
    now_seen = seen.model_copy(
        update={
            "container_restarts": max(pod.container_restarts, seen.container_restarts),
            "query_restarts": query,
        }
    )
    return History(counted, now_seen, _newest(before, pod, report, replaced=replaced))


def report_of(pod: DriverPod) -> DriverReport | None:
    """The driver's report, if it is about the spec that its pod was made for."""
    report = pod.report
    return report if report is not None and report.spec_hash == pod.spec_hash else None


def _more(counted: int, reported: int) -> int:
    """How many are new; a driver that started anew counts from nought again."""
    return reported - counted if reported >= counted else reported


def _add(before: Restarts, *, query: int, process: int, pod: int) -> Restarts:
    return Restarts(
        total=before.total + query + process + pod,
        query=before.query + query,
        process=before.process + process,
        pod=before.pod + pod,
    )


def _newest(
    before: StreamStatus, pod: DriverPod, report: DriverReport | None, *, replaced: bool
) -> LastFailure | None:
    """The failure that happened last; of two at one time the one that is known already."""
    known = [before.last_failure, report.last_failure if report else None, pod.failure]
    if replaced:
        known.append(
            LastFailure(
                reason="DriverPodReplaced",
                message="The driver's pod was deleted, evicted or lost with its node",
                permanent=False,
                time=pod.created,
            )
        )
    return max(
        (failure for failure in known if failure is not None),
        key=lambda failure: failure.time,
        default=None,
    )
