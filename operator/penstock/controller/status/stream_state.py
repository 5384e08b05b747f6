"""The state of a stream and its reason, from what is desired and what is observed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from penstock.api.v1alpha1.status import LastFailure, StreamState
from penstock.cluster import kinds
from penstock.cluster.driver_pod import DriverPod, WaitingReason, waiting_reason
from penstock.cluster.events import newest
from penstock.cluster.fields import at
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller.observed.children import ObservedChildren
from penstock.controller.status.not_applied import NotApplied

# The kubelet confirms a pod's end within seconds. One that takes longer has a node that is away.
_TERMINATION_SLACK = timedelta(seconds=30)
# Kubernetes, "Non-graceful node shutdown handling". `kubectl delete node` does not detach volumes.
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# What the clocks of the cluster's components may differ by.
_CLOCK_SLACK = timedelta(seconds=10)


@dataclass(frozen=True)
class Assessment:
    """What runs of a stream, and whether that is what its spec says."""

    state: StreamState
    reason: str
    message: str
    blocked: bool = False
    """Whether Kubernetes says why the driver or its executors cannot run."""
    not_applied: NotApplied | None = None
    """Why the current spec is not applied; None if it is."""
    has_driver: bool = True
    """False if the spec is not applied, and no driver of an earlier one is there to assess."""

    @property
    def ready(self) -> bool:
        """Whether the query runs, or has finished its work; perhaps with a previous spec."""
        return self.state in (StreamState.RUNNING, StreamState.COMPLETED)

    @property
    def settled(self) -> bool:
        """Whether the stream does what its spec says, so that nothing is expected to change."""
        return self.ready or self.state is StreamState.SUSPENDED

    @property
    def stalled(self) -> bool:
        """Whether someone must act before the stream does what its spec says."""
        refused = self.not_applied is not None and not self.not_applied.retried
        return refused or self.state is StreamState.STALLED


def without_apply(driver: Assessment | None, cause: NotApplied) -> Assessment:
    """The assessment of a stream whose spec is not applied: what runs decides, if anything does."""
    if driver is not None:
        return replace(driver, not_applied=cause)
    state = StreamState.PENDING if cause.retried else StreamState.STALLED
    return Assessment(state, cause.reason, cause.message, not_applied=cause, has_driver=False)


@dataclass(frozen=True)
class Before:
    """What the previous status says that the assessment depends on."""

    spec_hash: str | None = None
    """The spec of the last driver pod; None if there was none."""
    not_ready_since: datetime | None = None
    """Since when the stream is not Ready; None if it was Ready, or never observed."""


def assess_driver(
    name: str, spec_hash: str, children: ObservedChildren, before: Before, now: datetime
) -> Assessment:
    """The state of a stream from its driver, which should run the spec with this hash."""
    pod = children.driver_pod
    if pod is None:
        return _no_pod(name, spec_hash, children, before, now)
    if _is_overdue(pod, now):
        return _stuck(pod)
    if pod.spec_hash != spec_hash:
        return Assessment(
            StreamState.STARTING,
            "RollingOut",
            f"The pod {pod.name} has the previous spec and is being replaced",
        )
    if pod.terminating:
        return Assessment(
            StreamState.RESTARTING, "DriverStopping", f"The pod {pod.name} is being replaced"
        )
    if not pod.started:
        return _not_started(pod, children)
    report = pod.report
    if report is None or report.spec_hash != spec_hash:
        return Assessment(StreamState.STARTING, "DriverStarting", "The driver is starting")
    return _started(pod, report, children)


def assess_suspended(pod: DriverPod | None, now: datetime) -> Assessment:
    """The state of a stream that should have no driver."""
    if pod is None:
        return Assessment(
            StreamState.SUSPENDED,
            "Suspended",
            "The stream is stopped. It continues from its checkpoint when spec.suspend is false",
        )
    if _is_overdue(pod, now):
        return replace(_stuck(pod), state=StreamState.SUSPENDING)
    return Assessment(
        StreamState.SUSPENDING,
        "Suspending",
        f"The query commits, and the pod {pod.name} ends",
    )


def _is_overdue(pod: DriverPod, now: datetime) -> bool:
    due = pod.termination_due
    return due is not None and now > due + _TERMINATION_SLACK


def _no_pod(
    name: str, spec_hash: str, children: ObservedChildren, before: Before, now: datetime
) -> Assessment:
    owner = naming.driver_name(name)
    since = (before.not_ready_since or now) - _CLOCK_SLACK
    refusal = newest(children.warnings, kinds.uid_of(children.stateful_set or {}), since)
    restarting = before.spec_hash == spec_hash
    state = StreamState.RESTARTING if restarting else StreamState.PENDING
    if refusal is not None:
        message = f"The StatefulSet {owner} cannot create its pod: {refusal.message}"
        return Assessment(state, refusal.reason, message, blocked=True)
    if before.spec_hash is not None and not restarting:
        return Assessment(
            StreamState.STARTING, "RollingOut", "The pod with the new spec is about to be created"
        )
    return Assessment(
        state,
        "NoDriverPod",
        f"The StatefulSet {owner} has no pod yet. If this lasts, run `kubectl describe` on it",
    )


def _stuck(pod: DriverPod) -> Assessment:
    """Its node does not confirm the pod's end, so Kubernetes creates no other pod."""
    node = pod.node or "(unknown)"
    cause = f" ({pod.termination_cause})" if pod.termination_cause else ""
    return Assessment(
        StreamState.RESTARTING,
        "DriverNodeUnreachable",
        f"The pod {pod.name} should have ended{cause}, and its node {node} does not confirm it. "
        f"Kubernetes starts no other driver until then. Repair the node; or, if it is shut down "
        f"for good, run `kubectl taint nodes {node} {_OUT_OF_SERVICE}=nodeshutdown:NoExecute`, "
        f"and Kubernetes removes the pod and detaches its volume",
        blocked=True,
    )


def _not_started(pod: DriverPod, children: ObservedChildren) -> Assessment:
    """The driver's container does not run: not yet, or not any more."""
    failure, waiting = pod.failure, _why_waiting(pod, children)
    if failure is not None and failure.permanent:
        return _stalled(failure)
    if failure is not None and (waiting is None or waiting.reason == "CrashLoopBackOff"):
        return Assessment(
            StreamState.RESTARTING,
            waiting.reason if waiting else "DriverRestarting",
            f"The driver exited and Kubernetes restarts it: {failure.message}",
        )
    if waiting is not None:
        return Assessment(
            StreamState.RESTARTING if failure else StreamState.PENDING,
            waiting.reason,
            f"Pod {pod.name}: {waiting.message}",
            blocked=True,
        )
    return Assessment(StreamState.PENDING, "DriverStarting", f"The pod {pod.name} is starting")


def _why_waiting(pod: DriverPod, children: ObservedChildren) -> WaitingReason | None:
    """Why the pod waits: in its status, or in the warnings about it and about its volume."""
    waiting = pod.waiting_reason
    if waiting is None:
        warning = newest(children.warnings, pod.uid, pod.not_ready_since - _CLOCK_SLACK)
        waiting = WaitingReason(warning.reason, warning.message) if warning else None
    claim = children.claim
    if claim is None or at(claim, "status", "phase") not in ("Pending", "Lost"):
        return waiting
    about_claim = newest(children.warnings, kinds.uid_of(claim))
    if at(claim, "status", "phase") == "Lost":
        words = "its volume is gone"
    elif about_claim is not None:
        words = f"{about_claim.reason}: {about_claim.message}"
    else:
        return waiting
    words = f"PersistentVolumeClaim {kinds.name_of(claim)}: {words}"
    if waiting is None:
        return WaitingReason(about_claim.reason if about_claim else "ClaimLost", words)
    return WaitingReason(waiting.reason, f"{waiting.message}; {words}")


def _started(pod: DriverPod, report: DriverReport, children: ObservedChildren) -> Assessment:
    """The driver's container runs, and its report is about the current spec."""
    failure = report.last_failure
    match report.state:
        case QueryState.FAILED:
            return _stalled(failure)
        case QueryState.RESTARTING:
            cause = failure.message if failure else report.message
            return Assessment(
                StreamState.RESTARTING,
                failure.reason if failure else "QueryRestarting",
                f"{_how_it_restarts(report)}: {cause}",
            )
        case QueryState.STOPPING:
            return Assessment(StreamState.RESTARTING, "DriverStopping", "The driver is stopping")
        case QueryState.WAITING_FOR_CORES:
            return _waiting_for_cores(report, children)
        case QueryState.STARTING:
            message = report.message or "The query is starting"
            return Assessment(StreamState.STARTING, "QueryStarting", message)
        case QueryState.RUNNING:
            return _running(pod, report)
        case QueryState.COMPLETED:
            return _completed(pod)


def _how_it_restarts(report: DriverReport) -> str:
    """What the driver does about the failure. A query that was left running has committed."""
    if report.committed:
        return "The query is left running for now, and continues without a restart if it can"
    if report.next_retry_time is not None:
        at = report.next_retry_time.astimezone(UTC)
        return f"The query failed, and is started again from its checkpoint at {at:%H:%M:%S} UTC"
    return "The query failed and is restarted from its checkpoint"


def _running(pod: DriverPod, report: DriverReport) -> Assessment:
    if not report.committed:
        message = report.message or "The query runs and has not committed its first epoch yet"
        return Assessment(StreamState.STARTING, "WaitingForFirstEpoch", message)
    if not pod.ready:
        return _not_ready(pod, report.message)
    message = report.message or "The query runs and commits epochs"
    return Assessment(StreamState.RUNNING, "Running", message)


def _not_ready(pod: DriverPod, reported: str) -> Assessment:
    words = f": {pod.not_ready_message}" if pod.not_ready_message else ""
    message = reported or f"The pod {pod.name} is not ready{words}"
    return Assessment(StreamState.STARTING, "DriverNotReady", message)


def _completed(pod: DriverPod) -> Assessment:
    if not pod.ready:
        return _not_ready(pod, "")
    return Assessment(
        StreamState.COMPLETED,
        "Completed",
        "The query has read all records. To run it again, set spec.restartedAt; to read on, change "
        "its trigger",
    )


def _waiting_for_cores(report: DriverReport, children: ObservedChildren) -> Assessment:
    """Cores are missing; the message quotes the scheduler or the kubelet where they say why."""
    message = report.message or "The query needs a core for each partition"
    blocked = False
    for pod in children.executor_pods:
        waiting = waiting_reason(pod)
        if waiting is not None:
            name, blocked = kinds.name_of(pod), True
            message += f"; pod {name}: {waiting.reason}: {waiting.message}"
            break  # the other pods say the same
    return Assessment(StreamState.WAITING_FOR_CORES, "WaitingForCores", message, blocked=blocked)


def _stalled(failure: LastFailure | None) -> Assessment:
    if failure is None:
        return Assessment(
            StreamState.STALLED, "QueryFailed", "The query failed: see the driver's log"
        )
    return Assessment(StreamState.STALLED, failure.reason, failure.message)
