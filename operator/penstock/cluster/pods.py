"""The pods of a stream, as the operator and `penstock doctor` see them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from penstock.api.problem import Problem
from penstock.api.v1alpha1.status import LastFailure
from penstock.cluster.lenient_fields import (
    MAX_MESSAGE_CHARACTERS,
    at,
    count,
    mapping,
    mappings,
    reason,
    text,
    timestamp,
)
from penstock.cluster.objects import LONG_AGO, Object
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport

# The kubelet's reasons for a container that simply has not started yet.
_ORDINARY_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})
# The kubelet alternates between an attempt and the wait for the next one. One reason for both, so
# that neither a condition nor its time alternates.
_ATTEMPTS = {"ErrImagePull": "ImagePullBackOff"}
OOM_KILLED = "OOMKilled"
LABEL_REVISION = "controller-revision-hash"


@dataclass(frozen=True)
class ContainerEnd:
    code: int
    """0 also if it is not known."""
    reason: str
    message: str
    started: datetime | None
    finished: datetime | None
    """After a reboot of its node the kubelet does not know."""


@dataclass(frozen=True)
class Container:
    """The status of one container of a pod."""

    name: str
    ready: bool
    restarts: int
    running: bool
    running_since: datetime | None
    ends: tuple[ContainerEnd, ...]
    """Of the run before, and of the last one if it is over."""

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Container:
        state = mapping(raw.get("state"))
        ended = (at(raw, "lastState", "terminated"), state.get("terminated"))
        return cls(
            text(raw.get("name")),
            raw.get("ready") is True,
            count(raw.get("restartCount")),
            "running" in state,
            timestamp(at(state, "running", "startedAt")),
            tuple(_end(each) for each in ended if isinstance(each, Mapping)),
        )


def _end(raw: Mapping[str, Any]) -> ContainerEnd:
    code = raw.get("exitCode")
    return ContainerEnd(
        code if isinstance(code, int) else 0,
        reason(raw.get("reason"), "Error"),
        text(raw.get("message")),
        timestamp(raw.get("startedAt")),
        timestamp(raw.get("finishedAt")),
    )


@dataclass(frozen=True)
class Pod(Object):
    """A pod of a driver, of an executor or of the operator."""

    @property
    def is_executor(self) -> bool:
        return self.labels.get(naming.LABEL_COMPONENT) == naming.COMPONENT_EXECUTOR

    @property
    def is_driver(self) -> bool:
        return self.labels.get(naming.LABEL_COMPONENT) == naming.COMPONENT_DRIVER

    @property
    def tied_to_driver(self) -> bool:
        """Whether it can only run on the driver's node."""
        rules = "requiredDuringSchedulingIgnoredDuringExecution"
        required = at(self.manifest, "spec", "affinity", "podAffinity", rules)
        return any(
            at(term, "labelSelector", "matchLabels", naming.LABEL_COMPONENT)
            == naming.COMPONENT_DRIVER
            for term in mappings(required)
        )

    @property
    def phase(self) -> str:
        return text(at(self.manifest, "status", "phase"))

    @property
    def node(self) -> str:
        """The name of its node; empty if it has none yet."""
        return text(at(self.manifest, "spec", "nodeName"))

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """The statuses of its containers; none before the kubelet has seen the pod."""
        return tuple(
            map(Container.parse, mappings(at(self.manifest, "status", "containerStatuses")))
        )

    @property
    def container_names(self) -> list[str]:
        return [
            text(container.get("name"))
            for container in mappings(at(self.manifest, "spec", "containers"))
        ]

    @property
    def started(self) -> bool:
        return any(container.running for container in self.containers)

    @property
    def ready(self) -> bool:
        """Whether the pod is ready, by its readiness probe."""
        return self.condition("Ready").get("status") == "True"

    @property
    def not_ready_message(self) -> str:
        """Why it is not ready, as reported by Kubernetes; empty if it does not say."""
        return text(self.condition("Ready").get("message"))

    @property
    def not_ready_since(self) -> datetime:
        """When the pod was last ready, or was created."""
        changed = timestamp(self.condition("Ready").get("lastTransitionTime"))
        return max(self.created, changed or self.created)

    @property
    def termination_due(self) -> datetime | None:
        """When its grace period ends; None if it is not being deleted."""
        return timestamp(at(self.manifest, "metadata", "deletionTimestamp"))

    @property
    def termination_cause(self) -> str:
        """Why Kubernetes ends the pod, in its own words; empty if it does not say."""
        return text(self.condition("DisruptionTarget").get("message"))

    @property
    def waiting_reason(self) -> Problem | None:
        """Why the pod does not run, by the scheduler or the kubelet; None if they do not say."""
        scheduled = self.condition("PodScheduled")
        if scheduled.get("status") == "False":
            why = reason(scheduled.get("reason"), "Unschedulable")
            return Problem(why, text(scheduled.get("message")))
        for kind in ("initContainerStatuses", "containerStatuses"):
            for container in mappings(at(self.manifest, "status", kind)):
                waiting = at(container, "state", "waiting")
                why = reason(at(waiting, "reason"), "")
                if why not in _ORDINARY_WAITS:
                    return Problem(_ATTEMPTS.get(why, why), text(at(waiting, "message")))
        return None


@dataclass(frozen=True)
class DriverPod(Pod):
    """The driver's pod, with what its driver reports."""

    @property
    def pod_hash(self) -> str:
        """The hash of what it was created from, which nobody can change."""
        for container in mappings(at(self.manifest, "spec", "containers")):
            for variable in mappings(container.get("env")):
                if variable.get("name") == naming.ENV_POD_HASH:
                    return text(variable.get("value"))
        return ""

    @property
    def revision(self) -> str:
        """The StatefulSet's revision that it was created from."""
        return self.labels.get(LABEL_REVISION, "")

    @property
    def checkpoint_location(self) -> str:
        """Where in an object store it has the checkpoint; empty if it has a volume."""
        return self.annotations.get(naming.ANNOTATION_CHECKPOINT, "")

    @property
    def account_name(self) -> str:
        """The name of the ServiceAccount that it runs as."""
        return text(at(self.manifest, "spec", "serviceAccountName"))

    @property
    def wrote(self) -> datetime:
        """When its driver last wrote a report, by the API server's clock: its token was valid."""
        return self.written_by(naming.DRIVER_FIELD_MANAGER) or LONG_AGO

    @property
    def started(self) -> bool:
        return self._container is not None and self._container.running

    @property
    def container_restarts(self) -> int:
        return self._container.restarts if self._container else 0

    @cached_property
    def report(self) -> DriverReport | None:
        """The driver's report; None if there is none that can be read."""
        content = self.annotations.get(naming.ANNOTATION_REPORT)
        if content is None:
            return None
        try:
            return DriverReport.model_validate_json(content)
        except ValidationError:
            return None

    @property
    def spec_hash(self) -> str | None:
        """The revision that its driver follows; None before the first report."""
        return self.report.spec_hash if self.report is not None else None

    @property
    def failure(self) -> LastFailure | None:
        """Why the driver's container, or the whole pod, last failed."""
        if self.phase == "Failed" and self._node_failure is not None:
            return self._node_failure
        failures = filter(None, map(self._failure_of, self._ends))
        return max(failures, key=lambda failure: failure.time, default=None)

    @cached_property
    def _container(self) -> Container | None:
        named = (
            container for container in self.containers if container.name == naming.DRIVER_CONTAINER
        )
        return next(named, None)

    @property
    def _ends(self) -> tuple[ContainerEnd, ...]:
        return self._container.ends if self._container else ()

    @property
    def _node_failure(self) -> LastFailure | None:
        """The failure of a pod that was evicted, or whose node shut down."""
        why = at(self.manifest, "status", "reason")
        if not why:
            return None
        message = text(at(self.manifest, "status", "message"))
        return LastFailure(
            reason=reason(why, "DriverPodFailed"),
            message=message[:MAX_MESSAGE_CHARACTERS] or "The node ended the driver's pod",
            permanent=False,
            time=max(self._ended_at(), default=self.not_ready_since),
        )

    def _ended_at(self) -> Iterator[datetime]:
        """When the containers of a pod that failed ended, and since when its end was planned."""
        disrupted = self.condition("DisruptionTarget").get("lastTransitionTime")
        yield from filter(None, (*(end.finished for end in self._ends), timestamp(disrupted)))

    def _failure_of(self, end: ContainerEnd) -> LastFailure | None:
        """The failure behind a container's exit; None for exit code 0.

        Of the termination message only the driver's own JSON is used. Otherwise it holds the end
        of the log, which does not belong in a status.
        """
        if end.code == 0:
            return None
        try:
            return LastFailure.model_validate_json(end.message)
        except ValidationError:
            pass
        if end.reason == OOM_KILLED:
            message = (
                "The driver's container used more memory than its limit and was killed: raise "
                "spec.driver.resources.limits.memory and spec.driver.memoryOverhead"
            )
        elif end.reason == "ContainerStatusUnknown":
            message = "The driver's node restarted, or lost the container"
        else:
            code = f"signal {end.code - 128}" if 128 < end.code < 160 else f"exit code {end.code}"
            message = f"The driver's container exited with {code}: see kubectl logs --previous"
        # Without a time of the end, the start of the next container is the nearest time that is
        # known and stays the same.
        started = self._container.running_since if self._container else None
        known = filter(None, (end.finished, end.started, started))
        return LastFailure(
            reason=end.reason,
            message=message,
            permanent=False,
            time=next(known, self.not_ready_since),
        )
