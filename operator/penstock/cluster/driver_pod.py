"""The facts about the driver's pod that the operator decides by. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from penstock.api.v1alpha1.status import LastFailure
from penstock.cluster import fields, kinds
from penstock.cluster.fields import at, mapping, mappings, timestamp
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport

# The kubelet's reasons for a container that simply has not started yet.
_ORDINARY_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})
# The kubelet alternates between an attempt and the wait for the next one. One reason for both, so
# that neither a condition nor its time alternates.
_ATTEMPTS = {"ErrImagePull": "ImagePullBackOff"}
_MAX_MESSAGE_CHARACTERS = 4096
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WaitingReason:
    """Why a pod does not run, as reported by the scheduler or the kubelet."""

    reason: str
    message: str


@dataclass(frozen=True)
class DriverPod:
    """The driver's pod. Any field of its manifest may be absent or odd."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """The name of the pod."""
        return kinds.name_of(self.manifest)

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return kinds.uid_of(self.manifest)

    @property
    def spec_hash(self) -> str:
        """The hash of the resolved spec that it was created for."""
        return kinds.annotations_of(self.manifest).get(naming.ANNOTATION_SPEC_HASH, "")

    @property
    def revision(self) -> str:
        """The StatefulSet's revision that it was created from."""
        return kinds.labels_of(self.manifest).get("controller-revision-hash", "")

    @property
    def node(self) -> str:
        """The name of its node; empty if it has none yet."""
        return fields.text(at(self.manifest, "spec", "nodeName"))

    @property
    def terminating(self) -> bool:
        """Whether Kubernetes is deleting the pod."""
        return kinds.is_terminating(self.manifest)

    @property
    def termination_due(self) -> datetime | None:
        """When its grace period ends; None if it is not being deleted."""
        return timestamp(at(self.manifest, "metadata", "deletionTimestamp"))

    @property
    def termination_cause(self) -> str:
        """Why Kubernetes ends the pod, in its own words; empty if it does not say."""
        return fields.text(_condition(self.manifest, "DisruptionTarget").get("message"))

    @property
    def created(self) -> datetime:
        """When it was created."""
        return timestamp(at(self.manifest, "metadata", "creationTimestamp")) or _LONG_AGO

    @property
    def not_ready_since(self) -> datetime:
        """When the pod was last ready, or was created."""
        changed = timestamp(_condition(self.manifest, "Ready").get("lastTransitionTime"))
        return max(self.created, changed or self.created)

    @property
    def ready(self) -> bool:
        """Whether the pod is ready, by its readiness probe."""
        return _condition(self.manifest, "Ready").get("status") == "True"

    @property
    def not_ready_message(self) -> str:
        """Why it is not ready, as reported by Kubernetes; empty if it does not say."""
        return fields.text(_condition(self.manifest, "Ready").get("message"))

    @property
    def started(self) -> bool:
        """Whether the driver's container runs."""
        return "running" in mapping(self._container.get("state"))

    @property
    def container_restarts(self) -> int:
        """How often the kubelet restarted the driver's container."""
        return fields.count(self._container.get("restartCount"))

    @cached_property
    def report(self) -> DriverReport | None:
        """The driver's report; None if there is none that can be read."""
        text = kinds.annotations_of(self.manifest).get(naming.ANNOTATION_REPORT)
        if text is None:
            return None
        try:
            return DriverReport.model_validate_json(text)
        except ValidationError:
            return None

    @property
    def failure(self) -> LastFailure | None:
        """Why the driver's container, or the whole pod, last failed."""
        if at(self.manifest, "status", "phase") == "Failed" and self._node_failure is not None:
            return self._node_failure
        failures = [self._failure_of(exit_state) for exit_state in self._exits()]
        return max((each for each in failures if each is not None), key=_when, default=None)

    @property
    def waiting_reason(self) -> WaitingReason | None:
        """Why the pod does not run; None if Kubernetes reports no reason."""
        return waiting_reason(self.manifest)

    @property
    def _container(self) -> Mapping[str, Any]:
        statuses = mappings(at(self.manifest, "status", "containerStatuses"))
        return next((each for each in statuses if each.get("name") == naming.DRIVER_CONTAINER), {})

    @property
    def _node_failure(self) -> LastFailure | None:
        """The failure of a pod that was evicted, or whose node shut down."""
        reason = at(self.manifest, "status", "reason")
        if not reason:
            return None
        message = fields.text(at(self.manifest, "status", "message"))
        return LastFailure(
            reason=fields.reason(reason, "DriverPodFailed"),
            message=message[:_MAX_MESSAGE_CHARACTERS] or "The node ended the driver's pod",
            permanent=False,
            time=self._failed_at,
        )

    @property
    def _failed_at(self) -> datetime:
        """When the whole pod failed: its containers' end, or else what its conditions say."""
        ends = [timestamp(each.get("finishedAt")) for each in self._exits()]
        disrupted = timestamp(
            _condition(self.manifest, "DisruptionTarget").get("lastTransitionTime")
        )
        return max((each for each in (*ends, disrupted) if each), default=self.not_ready_since)

    def _exits(self) -> Iterator[Mapping[str, Any]]:
        for state in ("lastState", "state"):
            exit_state = at(self._container, state, "terminated")
            if isinstance(exit_state, Mapping):
                yield exit_state

    def _failure_of(self, exit_state: Mapping[str, Any]) -> LastFailure | None:
        """The failure behind a container's exit; None for exit code 0.

        Of the termination message only the driver's own JSON is used. Otherwise it holds the end
        of the log, which does not belong in a status.
        """
        code = exit_state.get("exitCode")
        if not isinstance(code, int) or code == 0:
            return None
        try:
            return LastFailure.model_validate_json(fields.text(exit_state.get("message")))
        except ValidationError:
            pass
        reason = fields.reason(exit_state.get("reason"), "Error")
        if reason == "OOMKilled":
            message = (
                "The driver's container used more memory than its limit and was killed: raise "
                "spec.driver.resources.limits.memory and spec.driver.memoryOverhead"
            )
        elif reason == "ContainerStatusUnknown":
            message = "The driver's node restarted, or lost the container"
        else:
            message = (
                f"The driver's container exited with {_code(code)}: see kubectl logs --previous"
            )
        return LastFailure(
            reason=reason, message=message, permanent=False, time=self._exited_at(exit_state)
        )

    def _exited_at(self, exit_state: Mapping[str, Any]) -> datetime:
        """When a container ended. After a reboot of the node the kubelet does not know.

        Then the start of the next container is the nearest time that is known and stays the same.
        """
        known = (
            exit_state.get("finishedAt"),
            exit_state.get("startedAt"),
            at(self._container, "state", "running", "startedAt"),
        )
        return next(filter(None, map(timestamp, known)), self.not_ready_since)


def waiting_reason(pod: Manifest) -> WaitingReason | None:
    """Why a pod does not run; None if Kubernetes reports no reason."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        reason = fields.reason(scheduled.get("reason"), "Unschedulable")
        return WaitingReason(reason, fields.text(scheduled.get("message")))
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in mappings(at(pod, "status", kind)):
            waiting = at(container, "state", "waiting")
            reason = fields.reason(at(waiting, "reason"), "")
            if reason not in _ORDINARY_WAITS:
                return WaitingReason(
                    _ATTEMPTS.get(reason, reason), fields.text(at(waiting, "message"))
                )
    return None


def _condition(pod: Manifest, kind: str) -> Mapping[str, Any]:
    conditions = mappings(at(pod, "status", "conditions"))
    return next((each for each in conditions if each.get("type") == kind), {})


def _code(code: int) -> str:
    return f"signal {code - 128}" if 128 < code < 160 else f"exit code {code}"


def _when(failure: LastFailure) -> datetime:
    return failure.time
