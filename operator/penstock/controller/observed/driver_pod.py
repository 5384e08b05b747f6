"""The facts about the driver's pod that the operator decides by. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport
from penstock.controller import objects
from penstock.controller.objects import Manifest

# The kubelet's reasons for a container that simply has not started yet.
_ORDINARY_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True)
class WaitingReason:
    """Why a pod does not run, as reported by the scheduler or the kubelet."""

    reason: str
    message: str


@dataclass(frozen=True)
class DriverPod:
    """The driver's pod."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """The name of the pod."""
        return str(self.manifest["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def spec_hash(self) -> str:
        """The hash of the resolved spec that it was created for."""
        return objects.annotations_of(self.manifest).get(naming.ANNOTATION_SPEC_HASH, "")

    @property
    def revision(self) -> str:
        """The StatefulSet's revision that it was created from."""
        return objects.labels_of(self.manifest).get("controller-revision-hash", "")

    @property
    def terminating(self) -> bool:
        """Whether Kubernetes is deleting the pod."""
        return objects.is_terminating(self.manifest)

    @property
    def created(self) -> datetime:
        """When it was created."""
        return _time(self.manifest["metadata"]["creationTimestamp"])

    @property
    def ready(self) -> bool:
        """Whether the pod is ready, by its readiness probe."""
        return _condition(self.manifest, "Ready").get("status") == "True"

    @property
    def started(self) -> bool:
        """Whether the driver's container runs."""
        return "running" in (self._container.get("state") or {})

    @property
    def container_restarts(self) -> int:
        """How often the kubelet restarted the driver's container."""
        return int(self._container.get("restartCount", 0))

    @cached_property
    def report(self) -> DriverReport | None:
        """The driver's report; None if there is none that can be read."""
        text = objects.annotations_of(self.manifest).get(naming.ANNOTATION_REPORT)
        if text is None:
            return None
        try:
            return DriverReport.model_validate_json(text)
        except ValidationError:
            return None

    @property
    def failure(self) -> LastFailure | None:
        """Why the driver's container, or the whole pod, last failed."""
        if (
            self.manifest.get("status", {}).get("phase") == "Failed"
            and self._node_failure is not None
        ):
            return self._node_failure
        failures = [_failure_of(exit_state) for exit_state in self._exits()]
        return max((each for each in failures if each is not None), key=_when, default=None)

    @property
    def waiting_reason(self) -> WaitingReason | None:
        """Why the pod does not run; None if Kubernetes reports no reason."""
        return waiting_reason(self.manifest)

    @property
    def _container(self) -> Mapping[str, Any]:
        statuses = self.manifest.get("status", {}).get("containerStatuses") or []
        return next((each for each in statuses if each["name"] == naming.DRIVER_CONTAINER), {})

    @property
    def _node_failure(self) -> LastFailure | None:
        """The failure of a pod that was evicted, or whose node shut down."""
        status = self.manifest["status"]
        if not status.get("reason"):
            return None
        return LastFailure(
            reason=status["reason"],
            message=status.get("message") or "The node ended the driver's pod",
            permanent=False,
            time=self.created,
        )

    def _exits(self) -> Iterator[Mapping[str, Any]]:
        for state in ("lastState", "state"):
            exit_state = (self._container.get(state) or {}).get("terminated")
            if exit_state is not None:
                yield exit_state


def waiting_reason(pod: Manifest) -> WaitingReason | None:
    """Why a pod does not run; None if Kubernetes reports no reason."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return WaitingReason(scheduled.get("reason", "Unschedulable"), scheduled.get("message", ""))
    for container in pod.get("status", {}).get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _ORDINARY_WAITS:
            return WaitingReason(waiting["reason"], waiting.get("message", ""))
    return None


def _condition(pod: Manifest, kind: str) -> Mapping[str, Any]:
    conditions = pod.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def _failure_of(exit_state: Mapping[str, Any]) -> LastFailure | None:
    """The failure behind a container's exit; None for exit code 0.

    Of the termination message only the driver's own JSON is used. Otherwise it holds the end of
    the log, which does not belong in a status.
    """
    code = int(exit_state.get("exitCode", 0))
    if code == 0:
        return None
    try:
        return LastFailure.model_validate_json(exit_state.get("message") or "")
    except ValidationError:
        pass
    reason = exit_state.get("reason") or "Error"
    if reason == "OOMKilled":
        message = (
            "The driver's container used more memory than its limit and was killed: raise "
            "spec.driver.resources.limits.memory and spec.driver.memoryOverhead"
        )
    else:
        message = f"The driver's container exited with {_code(code)}: see kubectl logs --previous"
    return LastFailure(
        reason=reason, message=message, permanent=False, time=_time(exit_state["finishedAt"])
    )


def _code(code: int) -> str:
    return f"signal {code - 128}" if 128 < code < 160 else f"exit code {code}"


def _when(failure: LastFailure) -> datetime:
    return failure.time


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
