"""The state of a stream and its reason, from what is desired and what is observed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.api.v1alpha1.status import LastFailure, StreamState
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller import objects
from penstock.controller.observed.children import ObservedChildren
from penstock.controller.observed.driver_pod import DriverPod, waiting_reason
from penstock.validation.problems import Problem


@dataclass(frozen=True)
class Assessment:
    """The stream's state, and the reason and message of the condition that matters most."""

    state: StreamState
    reason: str
    message: str

    @property
    def ready(self) -> bool:
        """Whether the query of the current spec runs, or has finished its work."""
        return self.state in (StreamState.RUNNING, StreamState.COMPLETED)

    @property
    def stalled(self) -> bool:
        """Whether the stream makes no progress until someone acts."""
        return self.state is StreamState.STALLED


def assess_invalid_spec(problems: Sequence[Problem], children: ObservedChildren) -> Assessment:
    """The spec cannot run. A stream that ran before keeps running: an edit must not stop it."""
    message = "; ".join(each.message for each in problems)
    if children.stateful_set is not None:
        message += ". The last valid spec keeps running"
    return Assessment(StreamState.STALLED, problems[0].reason, message)


def assess_missing_checkpoint(name: str) -> Assessment:
    """Epochs were committed, and the volume that held them is gone."""
    claim = naming.checkpoint_claim_name(name)
    return Assessment(
        StreamState.STALLED,
        "CheckpointMissing",
        f"The PersistentVolumeClaim {claim} with the stream's checkpoint is gone. Restore it "
        f"under that name, or delete the stream and apply it again to start from startingOffsets",
    )


def assess_previous_objects(names: Sequence[str]) -> Assessment:
    """Kubernetes still removes the objects of a deleted stream of the same name."""
    return Assessment(
        StreamState.PENDING,
        "WaitingForDeletion",
        f"Kubernetes still removes objects of a deleted stream of this name: {', '.join(names)}",
    )


def assess_refused_object(message: str) -> Assessment:
    """The API server refused one of the stream's objects: a quota, a policy or a limit."""
    return Assessment(
        StreamState.STALLED,
        "ApplyRefused",
        f"The API server refused an object of the stream. The operator retries, and what ran "
        f"before keeps running: {message}",
    )


def assess_driver(
    name: str, spec_hash: str, children: ObservedChildren, *, restarting: bool
) -> Assessment:
    """The state of a stream with a valid spec, from its driver."""
    pod = children.driver_pod
    if pod is None:
        return Assessment(
            StreamState.RESTARTING if restarting else StreamState.PENDING,
            "NoDriverPod",
            f"The StatefulSet {naming.driver_name(name)} has no pod yet. If this lasts, run "
            f"`kubectl describe` on it",
        )
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
        return _not_started(pod)
    report = pod.report
    if report is None or report.spec_hash != spec_hash:
        return Assessment(StreamState.STARTING, "DriverStarting", "The driver is starting")
    return _started(pod, report, children)


def _not_started(pod: DriverPod) -> Assessment:
    """The driver's container does not run: not yet, or not any more."""
    failure, waiting = pod.failure, pod.waiting_reason
    if failure is not None and failure.permanent:
        return _stalled(failure)
    if failure is not None:
        return Assessment(
            StreamState.RESTARTING,
            waiting.reason if waiting else "DriverRestarting",
            f"The driver exited and Kubernetes restarts it: {failure.message}",
        )
    if waiting is not None:
        return Assessment(StreamState.PENDING, waiting.reason, f"Pod {pod.name}: {waiting.message}")
    return Assessment(StreamState.PENDING, "DriverStarting", f"The pod {pod.name} is starting")


def _started(pod: DriverPod, report: DriverReport, children: ObservedChildren) -> Assessment:
    """The driver's container runs, and its report is about the current spec."""
    failure = report.last_failure
    match report.state:
        case QueryState.FAILED:
            return _stalled(failure)
        case QueryState.RESTARTING:
            cause = failure.message if failure else report.message
            # A failed query has to commit again. One that was left running has committed.
            what = (
                "The query waits for its source and continues without a restart"
                if report.committed
                else "The query failed and is restarted from its checkpoint"
            )
            return Assessment(
                StreamState.RESTARTING,
                failure.reason if failure else "QueryRestarting",
                f"{what}: {cause}",
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


def _running(pod: DriverPod, report: DriverReport) -> Assessment:
    if not report.committed:
        message = report.message or "The query runs and has not committed its first epoch yet"
        return Assessment(StreamState.STARTING, "WaitingForFirstEpoch", message)
    if not pod.ready:
        message = report.message or f"The pod {pod.name} is not ready"
        return Assessment(StreamState.STARTING, "DriverNotReady", message)
    message = report.message or "The query runs and commits epochs"
    return Assessment(StreamState.RUNNING, "Running", message)


def _completed(pod: DriverPod) -> Assessment:
    if not pod.ready:
        message = f"The pod {pod.name} is not ready"
        return Assessment(StreamState.STARTING, "DriverNotReady", message)
    return Assessment(
        StreamState.COMPLETED,
        "Completed",
        "The query has read all records. Delete the stream, or change its trigger to continue",
    )


def _waiting_for_cores(report: DriverReport, children: ObservedChildren) -> Assessment:
    """Cores are missing; the message quotes the scheduler or the kubelet where they say why."""
    message = report.message or "The query needs a core for each partition"
    for pod in children.executor_pods:
        waiting = waiting_reason(pod)
        if waiting is not None:
            name = objects.name_of(pod)
            message += f"; pod {name}: {waiting.reason}: {waiting.message}"
            break  # the other pods say the same
    return Assessment(StreamState.WAITING_FOR_CORES, "WaitingForCores", message)


def _stalled(failure: LastFailure | None) -> Assessment:
    if failure is None:
        return Assessment(
            StreamState.STALLED, "QueryFailed", "The query failed: see the driver's log"
        )
    return Assessment(StreamState.STALLED, failure.reason, failure.message)
