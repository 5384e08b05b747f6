"""What a pod's object says, in the few words the operator decides by. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport
from penstock.controller import objects
from penstock.controller.objects import Manifest

# The kubelet's words for a container that has not been started for no fault of its own.
_ORDINARY_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True)
class Obstacle:
    """What keeps a pod from running, in the words of the scheduler or the kubelet."""

    reason: str
    message: str


@dataclass(frozen=True)
class DriverPod:
    """The driver's pod."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its incarnation."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def spec_hash(self) -> str:
        """The hash of the document it was made for."""
        return objects.annotations_of(self.manifest).get(naming.ANNOTATION_SPEC_HASH, "")

    @property
    def revision(self) -> str:
        """The StatefulSet's revision it was made from."""
        return objects.labels_of(self.manifest).get("controller-revision-hash", "")

    @property
    def going(self) -> bool:
        """Whether its deletion has begun."""
        return objects.is_going(self.manifest)

    @property
    def created(self) -> datetime:
        """When it was made."""
        return _time(self.manifest["metadata"]["creationTimestamp"])

    @property
    def ready(self) -> bool:
        """Whether its readiness probe succeeds."""
        return _condition(self.manifest, "Ready").get("status") == "True"

    @property
    def started(self) -> bool:
        """Whether the driver's container runs."""
        return "running" in (self._container.get("state") or {})

    @property
    def container_restarts(self) -> int:
        """How often the kubelet started the driver's container anew."""
        return int(self._container.get("restartCount", 0))

    @property
    def report(self) -> DriverReport | None:
        """The driver's own account; None until there is one that can be read."""
        text = objects.annotations_of(self.manifest).get(naming.ANNOTATION_REPORT)
        if text is None:
            return None
        try:
            return DriverReport.model_validate_json(text)
        except ValidationError:
            return None

    @property
    def failure(self) -> LastFailure | None:
        """Why the driver's container, or the whole pod, last ended."""
        if self.manifest.get("status", {}).get("phase") == "Failed" and self._lost is not None:
            return self._lost
        ends = [_failure_of(end) for end in self._ends()]
        return max((each for each in ends if each is not None), key=_when, default=None)

    @property
    def obstacle(self) -> Obstacle | None:
        """What keeps it from running."""
        return obstacle(self.manifest)

    @property
    def _container(self) -> Mapping[str, Any]:
        statuses = self.manifest.get("status", {}).get("containerStatuses") or []
        return next((each for each in statuses if each["name"] == naming.DRIVER_CONTAINER), {})

    @property
    def _lost(self) -> LastFailure | None:
        """The failure of a pod that was evicted, or whose node shut down."""
        status = self.manifest["status"]
        if not status.get("reason"):
            return None
        return LastFailure(
            reason=status["reason"],
            message=status.get("message") or "The driver's pod was ended by its node",
            permanent=False,
            time=self.created,
        )

    def _ends(self) -> Iterator[Mapping[str, Any]]:
        for state in ("lastState", "state"):
            end = (self._container.get(state) or {}).get("terminated")
            if end is not None:
                yield end


def obstacle(pod: Manifest) -> Obstacle | None:
    """What keeps any pod from running; None when nothing does that Kubernetes speaks of."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return Obstacle(scheduled.get("reason", "Unschedulable"), scheduled.get("message", ""))
    for container in pod.get("status", {}).get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _ORDINARY_WAITS:
            return Obstacle(waiting["reason"], waiting.get("message", ""))
    return None


def _condition(pod: Manifest, kind: str) -> Mapping[str, Any]:
    conditions = pod.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def _failure_of(end: Mapping[str, Any]) -> LastFailure | None:
    """A container's end as a failure; a clean one is none.

    Only the driver's own JSON is taken from the termination message: the other thing it can hold
    is the end of the log, and logs do not belong in a status.
    """
    code = int(end.get("exitCode", 0))
    if code == 0:
        return None
    try:
        return LastFailure.model_validate_json(end.get("message") or "")
    except ValidationError:
        pass
    reason = end.get("reason") or "Error"
    if reason == "OOMKilled":
        message = (
            "The driver's container was killed for want of memory: raise spec.driver.memory or "
            "spec.driver.memoryOverhead"
        )
    else:
        message = f"The driver's container ended with {_code(code)}: see kubectl logs --previous"
    return LastFailure(
        reason=reason, message=message, permanent=False, time=_time(end["finishedAt"])
    )


def _code(code: int) -> str:
    return f"signal {code - 128}" if 128 < code < 160 else f"exit code {code}"


def _when(failure: LastFailure) -> datetime:
    return failure.time


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
