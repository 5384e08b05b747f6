"""What state a stream is in, and why: one verdict from what is wanted and what is there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.api.v1alpha1.status import LastFailure, StreamState
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller.observed.driver_pod import DriverPod, obstacle
from penstock.controller.observed.state import Observed
from penstock.validation.problems import Problem


@dataclass(frozen=True)
class Verdict:
    """The stream in one word, with the reason and the message of its leading condition."""

    state: StreamState
    reason: str
    message: str

    @property
    def ready(self) -> bool:
        """Whether the query of the spec as it stands really runs, or has done all it had to do."""
        return self.state in (StreamState.RUNNING, StreamState.COMPLETED)

    @property
    def stalled(self) -> bool:
        """Whether it stays as it is until someone does something."""
        return self.state is StreamState.STALLED


def of_problems(problems: Sequence[Problem], observed: Observed) -> Verdict:
    """The spec cannot run. What ran before goes on: a bad edit must not stop a good stream."""
    words = "; ".join(each.message for each in problems)
    if observed.stateful_set is not None:
        words += ". The last valid spec goes on running"
    return Verdict(StreamState.STALLED, problems[0].reason, words)


def of_missing_checkpoint(name: str) -> Verdict:
    """Progress was made, and the volume that held it is gone."""
    claim = naming.checkpoint_claim_name(name)
    return Verdict(
        StreamState.STALLED,
        "CheckpointMissing",
        f"The PersistentVolumeClaim {claim} with the stream's checkpoint is gone. Restore it "
        f"under that name, or delete the stream and apply it anew to begin from startingOffsets",
    )


def of_leftovers(names: Sequence[str]) -> Verdict:
    """A stream of the same name was deleted, and Kubernetes has not removed all of it yet."""
    return Verdict(
        StreamState.PENDING,
        "WaitingForDeletion",
        f"Objects of a deleted stream of this name are still being removed: {', '.join(names)}",
    )


def of_refusal(message: str) -> Verdict:
    """The API server would not take one of the stream's objects: a quota, a policy, a limit."""
    return Verdict(
        StreamState.STALLED,
        "ApplyRefused",
        f"The API server refuses an object of the stream; it is asked again now and then, and "
        f"what ran before goes on: {message}",
    )


def of_driver(name: str, spec_hash: str, observed: Observed, *, restarting: bool) -> Verdict:
    """The stream's state from its driver, if the spec is good."""
    pod = observed.driver_pod
    if pod is None:
        return Verdict(
            StreamState.RESTARTING if restarting else StreamState.PENDING,
            "NoDriverPod",
            f"The StatefulSet {naming.driver_name(name)} has no pod yet; if this lasts, "
            f"`kubectl describe` it",
        )
    if pod.spec_hash != spec_hash:
        return Verdict(
            StreamState.STARTING,
            "RollingOut",
            f"The pod {pod.name} still has the previous spec and is being replaced",
        )
    if pod.going:
        return Verdict(
            StreamState.RESTARTING, "DriverStopping", f"The pod {pod.name} is being replaced"
        )
    if not pod.started:
        return _not_started(pod)
    report = pod.report
    if report is None or report.spec_hash != spec_hash:
        return Verdict(StreamState.STARTING, "DriverStarting", "The driver is starting")
    return _running(pod, report, observed)


def _not_started(pod: DriverPod) -> Verdict:
    """The driver's container is not running: yet, or any more."""
    failure, hurdle = pod.failure, pod.obstacle
    if failure is not None and failure.permanent:
        return _stalled(failure)
    if failure is not None:
        return Verdict(
            StreamState.RESTARTING,
            hurdle.reason if hurdle else "DriverRestarting",
            f"The driver ended and is started again: {failure.message}",
        )
    if hurdle is not None:
        return Verdict(StreamState.PENDING, hurdle.reason, f"Pod {pod.name}: {hurdle.message}")
    return Verdict(StreamState.PENDING, "DriverStarting", f"The pod {pod.name} is starting")


def _running(pod: DriverPod, report: DriverReport, observed: Observed) -> Verdict:
    """The driver's container runs and the driver speaks for itself."""
    failure = report.last_failure
    match report.state:
        case QueryState.FAILED:
            return _stalled(failure)
        case QueryState.RESTARTING:
            words = failure.message if failure else report.message
            # A query that has failed has to commit anew; one that was left running has committed.
            what = (
                "The query waits for its source and goes on by itself"
                if report.committed
                else "The query failed and is restarted from its checkpoint"
            )
            return Verdict(
                StreamState.RESTARTING,
                failure.reason if failure else "QueryRestarting",
                f"{what}: {words}",
            )
        case QueryState.STOPPING:
            return Verdict(StreamState.RESTARTING, "DriverStopping", "The driver is stopping")
        case QueryState.WAITING_FOR_CORES:
            return _waiting_for_cores(report, observed)
        case QueryState.STARTING:
            message = report.message or "The query is starting"
            return Verdict(StreamState.STARTING, "QueryStarting", message)
        case QueryState.RUNNING:
            return _after_start(pod, report)
        case QueryState.COMPLETED:
            return _completed(pod)


def _after_start(pod: DriverPod, report: DriverReport) -> Verdict:
    if not report.committed:
        message = report.message or "The query runs and has not committed its first epoch yet"
        return Verdict(StreamState.STARTING, "WaitingForFirstEpoch", message)
    if not pod.ready:
        message = report.message or f"The pod {pod.name} does not answer as ready"
        return Verdict(StreamState.STARTING, "DriverNotReady", message)
    message = report.message or "The query runs and commits epochs"
    return Verdict(StreamState.RUNNING, "Running", message)


def _completed(pod: DriverPod) -> Verdict:
    if not pod.ready:
        message = f"The pod {pod.name} does not answer as ready"
        return Verdict(StreamState.STARTING, "DriverNotReady", message)
    return Verdict(
        StreamState.COMPLETED,
        "Completed",
        "All there was has been read. Delete the stream, or give it another trigger to go on",
    )


def _waiting_for_cores(report: DriverReport, observed: Observed) -> Verdict:
    """Short of cores, with the scheduler's or the kubelet's own words if it has any."""
    words = [report.message or "The query needs a core for each partition"]
    for pod in observed.executor_pods:
        hurdle = obstacle(pod)
        if hurdle is not None:
            words.append(f"pod {pod['metadata']['name']}: {hurdle.reason}: {hurdle.message}")
            break  # the others say the same
    return Verdict(StreamState.WAITING_FOR_CORES, "WaitingForCores", "; ".join(words))


def _stalled(failure: LastFailure | None) -> Verdict:
    if failure is None:
        return Verdict(
            StreamState.STALLED, "QueryFailed", "The driver gave up: see its log for the cause"
        )
    return Verdict(StreamState.STALLED, failure.reason, failure.message)
