"""What runs of a stream, and what Kubernetes says keeps it from running. Pure.

The operator writes it into the status; `penstock doctor` makes it again, so that it is as good
while no operator runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

from penstock.api.problem import Problem, sentence
from penstock.api.v1alpha1.status import LastFailure, StreamState
from penstock.cluster.objects import (
    LONG_AGO,
    Claim,
    Event,
    Object,
    StatefulSet,
    newest_warning,
)
from penstock.cluster.pods import DriverPod, Pod
from penstock.cluster.stream import Stream, not_ready_since
from penstock.contract import naming
from penstock.contract.driver_report import (
    API_SERVER_UNAUTHORIZED,
    DriverReport,
    QueryState,
)

# The kubelet confirms a pod's end within seconds. One that takes longer has a node that is away.
_TERMINATION_SLACK = timedelta(seconds=30)
# An API server accepts a token for ten seconds after it was found valid (TokenSuccessCacheTTL).
_TOKEN_CACHE = timedelta(seconds=30)
# What the clocks of the cluster's components may differ by.
_CLOCK_SLACK = timedelta(seconds=10)
_IMAGE = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_WORKS = frozenset({StreamState.RUNNING, StreamState.COMPLETED})
SERVICE_ACCOUNT_RECREATED = "ServiceAccountRecreated"


@dataclass(frozen=True, kw_only=True)
class RunningParts:
    """The objects from which a stream runs."""

    stateful_set: StatefulSet | None = None
    claim: Claim | None = None
    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    """What is known of them, about these objects."""
    driver_account: Object | None = None
    """The ServiceAccount of the driver's pod; None without one, or if it was not read."""

    @cached_property
    def driver_pod(self) -> DriverPod | None:
        """The pod of the current StatefulSet, not of an earlier one of the same name.

        A pod without an owner is one that the StatefulSet adopts, if its labels are right.
        """
        owner = self.stateful_set
        if owner is None:
            return None
        for pod in map(DriverPod, (pod.manifest for pod in self.pods)):
            is_orphan = pod.name == f"{owner.name}-0" and not pod.owners and pod.pod_hash != ""
            if pod.is_owned_by(owner.uid) or is_orphan:
                return pod
        return None

    @property
    def executor_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.is_executor)


@dataclass(frozen=True)
class Assessment:
    """What runs of a stream, and why no more does."""

    state: StreamState
    reason: str
    message: str
    obstacles: tuple[Problem, ...] = ()
    """What Kubernetes says about the driver or its executors, the cause before its effects."""

    @property
    def ready(self) -> bool:
        """Whether the query runs, or has finished its work."""
        return self.state in (StreamState.RUNNING, StreamState.COMPLETED)


def assess_driver(stream: Stream, pod_hash: str, parts: RunningParts, now: datetime) -> Assessment:
    """The state of a stream from its driver, whose pod should have this hash."""
    pod, status = parts.driver_pod, stream.status
    if pod is None:
        return _no_pod(stream, pod_hash, parts, now)
    stuck = _why_stuck(pod, now)
    if stuck is not None:
        return Assessment(StreamState.RESTARTING, stuck.reason, stuck.message, (stuck,))
    if pod.pod_hash != pod_hash:
        return Assessment(
            StreamState.STARTING,
            "RollingOut",
            f"The pod {pod.name} has the previous spec and is being replaced",
        )
    if has_revoked_token(parts):
        return Assessment(
            StreamState.RESTARTING,
            SERVICE_ACCOUNT_RECREATED,
            f"The ServiceAccount {pod.account_name} was deleted and recreated, so the API server "
            f"rejects the token of the pod {pod.name}. The next pod gets a new one, and the query "
            "continues from the checkpoint",
        )
    if pod.terminating:
        return Assessment(
            StreamState.RESTARTING, "DriverStopping", f"The pod {pod.name} is being replaced"
        )
    failure = pod.failure
    if failure is not None and _is_mute(pod, failure):
        return Assessment(StreamState.RESTARTING, failure.reason, failure.message)
    if not pod.started:
        return _not_started(pod, parts)
    report = pod.report
    if report is None:
        if pod.ready and status.state in _WORKS:
            # Its driver writes it again within seconds, and says by its probe that the query works.
            message = f"The pod {pod.name} is ready, but its report cannot be read"
            return Assessment(StreamState(status.state), str(status.state), message)
        return Assessment(StreamState.STARTING, "DriverStarting", "The driver is starting")
    return _started(pod, report, parts)


def assess_suspended(pod: DriverPod | None, now: datetime) -> Assessment:
    """The state of a stream that should have no driver."""
    if pod is None:
        return Assessment(
            StreamState.SUSPENDED,
            "Suspended",
            "The stream is stopped. It continues from its checkpoint when spec.suspend is false",
        )
    stuck = _why_stuck(pod, now)
    if stuck is not None:
        return Assessment(StreamState.SUSPENDING, stuck.reason, stuck.message, (stuck,))
    return Assessment(
        StreamState.SUSPENDING, "Suspending", f"The query commits, and the pod {pod.name} ends"
    )


def assess_finished(pod: DriverPod | None) -> Assessment:
    """The state of a stream whose query has read everything, and runs no more by itself."""
    gone = ", and its driver has ended" if pod is None else ""
    return Assessment(
        StreamState.COMPLETED,
        "Completed",
        f"The query has read all records{gone}. To run it once more, set spec.restartedAt. To "
        "continue reading, change its trigger",
    )


def is_overdue(pod: Pod, now: datetime) -> bool:
    """Whether a pod should have ended, and its node does not confirm it."""
    due = pod.termination_due
    return due is not None and now > due + _TERMINATION_SLACK


def has_revoked_token(parts: RunningParts) -> bool:
    """Whether the token of the driver's pod is of a ServiceAccount that is gone.

    A token is bound to the account's UID, so it ends when the account is deleted, also if another
    one of its name is created at once. The next pod is younger than that account. After 48 minutes
    the kubelet may have fetched a new token: then the driver has reported since.
    """
    pod, account = parts.driver_pod, parts.driver_account
    if pod is None or account is None or account.name != pod.account_name:
        return False
    return LONG_AGO < pod.created < account.created and pod.wrote < account.created + _TOKEN_CACHE


def _is_mute(pod: DriverPod, failure: LastFailure) -> bool:
    """Whether its driver ended because its token is rejected, and has not reported since."""
    return failure.reason == API_SERVER_UNAUTHORIZED and not pod.ready and pod.wrote <= failure.time


def driver_obstacles(pod: DriverPod, parts: RunningParts) -> tuple[Problem, ...]:
    """What keeps a driver's pod from running: its volume, then what is said about the pod."""
    unbound = why_unbound(parts.claim, parts.events) if parts.claim else None
    return tuple(filter(None, (unbound, why_waiting(pod, parts.events))))


def executor_obstacles(parts: RunningParts) -> tuple[Problem, ...]:
    """What keeps executors' pods from running; one pod for each reason, since all say the same."""
    by_reason: dict[str, Problem] = {}
    for pod in parts.executor_pods:
        is_waiting = pod.phase == "Pending" and not pod.terminating
        obstacle = why_waiting(pod, parts.events) if is_waiting else None
        if obstacle is not None and pod.tied_to_driver and not pod.node:
            obstacle = replace(obstacle, message=f"{obstacle.message} {_only_near_driver(parts)}")
        if obstacle is not None:
            by_reason.setdefault(obstacle.reason, obstacle)
    return tuple(by_reason.values())


def _only_near_driver(parts: RunningParts) -> str:
    """Why no other node will do, and how to come to one that does."""
    node = parts.driver_pod.node if parts.driver_pod else ""
    return (
        "The query keeps its state on the checkpoint's volume, which one node can mount, so its "
        f"executors must run on the driver's: {node or '(unknown)'}. Make room there, lower "
        "spec.executor.resources.requests, or give the driver a node with room "
        "(spec.driver.podTemplate.spec.nodeSelector), if the volume can follow."
    )


def _no_pod(stream: Stream, pod_hash: str, parts: RunningParts, now: datetime) -> Assessment:
    since = not_ready_since(stream.status) or now
    owner, internal = parts.stateful_set, stream.status.internal
    refusal = why_no_pod(owner, parts.events, since) if owner else None
    last_hash = internal.pod_hash if internal else None
    restarting = last_hash == pod_hash
    state = StreamState.RESTARTING if restarting else StreamState.PENDING
    if refusal is not None:
        return Assessment(state, refusal.reason, refusal.message, (refusal,))
    if last_hash is not None and not restarting:
        return Assessment(
            StreamState.STARTING, "RollingOut", "The pod with the new spec is about to be created"
        )
    return Assessment(
        state,
        "NoDriverPod",
        f"The StatefulSet {naming.driver_name(stream.name)} has no pod yet. If this lasts, run "
        "`kubectl describe` on it",
    )


def _why_stuck(pod: DriverPod, now: datetime) -> Problem | None:
    """A finalizer keeps the pod, or its node does not confirm its end: there is no other one."""
    held = why_held(pod)
    if held is not None or not is_overdue(pod, now):
        return held
    node = pod.node or "(unknown)"
    cause = f" ({pod.termination_cause})" if pod.termination_cause else ""
    return Problem(
        "DriverNodeUnreachable",
        f"The pod {pod.name} should have ended{cause}, but its node {node} does not confirm it. "
        f"Until then Kubernetes starts no other driver. Repair the node; or, if it is shut down "
        f"for good, run `{leave_node(node)}`, and Kubernetes removes the pod and detaches its "
        f"volume",
    )


def _not_started(pod: DriverPod, parts: RunningParts) -> Assessment:
    """The driver's container does not run: not yet, or not any more."""
    failure, obstacles = pod.failure, driver_obstacles(pod, parts)
    if failure is not None and failure.permanent:
        return _stalled(failure)
    reason = obstacles[-1].reason if obstacles else "DriverRestarting"
    if failure is not None and reason in ("DriverRestarting", "CrashLoopBackOff"):
        message = f"The driver exited and Kubernetes restarts it: {failure.message}"
        return Assessment(StreamState.RESTARTING, reason, message)
    if obstacles:
        state = StreamState.RESTARTING if failure else StreamState.PENDING
        message = "; ".join(obstacle.message for obstacle in reversed(obstacles))
        return Assessment(state, reason, message, obstacles)
    return Assessment(StreamState.PENDING, "DriverStarting", f"The pod {pod.name} is starting")


def _started(pod: DriverPod, report: DriverReport, parts: RunningParts) -> Assessment:
    """The driver's container runs, and reports."""
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
            return _waiting_for_cores(report, parts)
        case QueryState.STARTING:
            reason = "WaitingForFirstEpoch" if report.query_runs else "QueryStarting"
            message = report.message or "The query is starting"
            return Assessment(StreamState.STARTING, reason, message)
        case QueryState.RUNNING:
            return _running(pod, report)
        case QueryState.COMPLETED:
            return _completed(pod)


def _how_it_restarts(report: DriverReport) -> str:
    """What the driver does about the failure."""
    if report.query_runs:
        return "The query is left running for now, because it may recover without a restart"
    if report.next_retry_time is not None:
        at = report.next_retry_time.astimezone(UTC)
        return f"The query failed, and restarts from its checkpoint at {at:%H:%M:%S} UTC"
    return "The query failed and is restarted from its checkpoint"


def _running(pod: DriverPod, report: DriverReport) -> Assessment:
    if not pod.ready:
        return _not_ready(pod, report.message)
    if report.committed:
        message = report.message or "The query runs and has committed epochs"
    else:
        works = (report.message or "The query runs").rstrip(".")
        message = f"{works}. It has committed nothing since its start: {_last_commit(report)}"
    return Assessment(StreamState.RUNNING, "Running", message)


def _last_commit(report: DriverReport) -> str:
    """The last commit of an earlier query."""
    if report.epoch is None:
        return "its checkpoint has no commit"
    at = report.last_commit_time
    when = f", was at {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else " is of an earlier run"
    return f"the last commit, epoch {report.epoch}{when}"


def _not_ready(pod: DriverPod, reported: str) -> Assessment:
    words = f": {pod.not_ready_message}" if pod.not_ready_message else ""
    message = reported or f"The pod {pod.name} is not ready{words}"
    return Assessment(StreamState.STARTING, "DriverNotReady", message)


def _completed(pod: DriverPod) -> Assessment:
    if not pod.ready:
        return _not_ready(pod, "")
    return assess_finished(pod)


def _waiting_for_cores(report: DriverReport, parts: RunningParts) -> Assessment:
    """Cores are missing; the message quotes the scheduler or the kubelet where they say why."""
    message = report.message or "The query needs a core for each partition"
    obstacles = executor_obstacles(parts)
    if obstacles:
        message = f"{sentence(message)} {obstacles[0].message}"
    return Assessment(StreamState.WAITING_FOR_CORES, "WaitingForCores", message, obstacles)


def _stalled(failure: LastFailure | None) -> Assessment:
    if failure is None:
        return Assessment(
            StreamState.STALLED, "QueryFailed", "The query failed: see the driver's log"
        )
    return Assessment(StreamState.STALLED, failure.reason, failure.message)


def leave_node(node: str) -> str:
    """What to do about a node that is shut down for good.

    Kubernetes, "Non-graceful node shutdown handling". `kubectl delete node` detaches no volumes.
    """
    return f"kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


def why_no_pod(owner: StatefulSet, events: Iterable[Event], since: datetime) -> Problem | None:
    """Why a StatefulSet has no pod: what Kubernetes has said since then."""
    refusal = newest_warning(events, owner.uid, since - _CLOCK_SLACK)
    if refusal is None:
        return None
    message = f"Kubernetes refuses a pod of the {owner}: {refusal.message}"
    return Problem(refusal.reason, message)


def why_waiting(pod: Pod, events: Iterable[Event]) -> Problem | None:
    """Why a pod waits: in its status, or else in the warnings since it was last ready."""
    waiting = pod.waiting_reason
    if waiting is not None:
        reason, words = waiting.reason, waiting.message
    else:
        warning = newest_warning(events, pod.uid, pod.not_ready_since - _CLOCK_SLACK)
        if warning is None:
            return None
        reason, words = warning.reason, warning.message
    verb = "cannot pull its image" if reason in _IMAGE else "waits"
    return Problem(reason, f"The pod {pod.name} {verb}: {words or reason}")


def why_unbound(claim: Claim, events: Iterable[Event]) -> Problem | None:
    """Why a claim has no volume; None if it has one, or if Kubernetes does not say."""
    if claim.phase == "Lost":
        return Problem("ClaimLost", f"{claim}: its volume is gone")
    warning = newest_warning(events, claim.uid) if claim.phase == "Pending" else None
    if warning is None:
        return None
    message = f"The {claim} is not bound: {warning.reason}: {warning.message}"
    return Problem(warning.reason, message)


def why_deleted(claim: Claim) -> Problem | None:
    """What becomes of the checkpoint of a claim that is being deleted."""
    if not claim.terminating:
        return None
    return Problem(
        "CheckpointTerminating",
        f"The {claim} is being deleted: Kubernetes removes it, and with it the checkpoint, as soon "
        f"as the driver's pod ends. This cannot be undone. Keep the volume "
        f"(persistentVolumeReclaimPolicy: Retain) or copy the checkpoint now",
    )


def why_held(deleted: Object) -> Problem | None:
    """Why an object that somebody has deleted is still there, if finalizers keep it."""
    runs = isinstance(deleted, Pod) and any(container.running for container in deleted.containers)
    if not deleted.terminating or not deleted.finalizers or runs:
        return None
    finalizers = ", ".join(deleted.finalizers)
    command = f"kubectl patch {deleted.kind.plural} {deleted.name} -n {deleted.namespace}"
    return Problem(
        "HeldByFinalizers",
        f"The {deleted} is being deleted, and its finalizers keep it: {finalizers}. There is no "
        f"other one before it is gone. Whoever has set them must remove them; if "
        f'nobody does, run `{command} --type=merge -p \'{{"metadata":{{"finalizers":null}}}}\'`',
    )
