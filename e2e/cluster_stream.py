"""A ContinuousStream on the cluster, seen as a user sees it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from testkit.kubernetes.kubectl import Kube, Object, wait_for

KIND = "continuousstreams.penstock.dev"

# Two cores carry the cluster, the driver and the executors: a start can take a while.
READY_WITHIN = 240.0


def manifest(name: str, spec: Object) -> Object:
    """A ContinuousStream of small pods, for a machine of two cores."""
    small = {
        "driver": {"coreRequest": "100m", "memory": "512Mi"},
        "executor": {"cores": 2, "coreRequest": "100m", "memory": "512Mi"},
    }
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "ContinuousStream",
        "metadata": {"name": name},
        "spec": {**small, **spec},
    }


def kafka_to_kafka(
    bootstrap: str, topic: str, to: str, sql: str | None = None, interval: str = "1s"
) -> Object:
    """A spec that copies one topic to another in continuous mode."""
    spec: Object = {
        "source": {
            "kafka": {
                "bootstrapServers": bootstrap,
                "topics": [topic],
                "startingOffsets": "earliest",
            }
        },
        "sink": {"kafka": {"bootstrapServers": bootstrap, "topic": to}},
        "trigger": {"continuous": {"checkpointInterval": interval}},
    }
    return spec if sql is None else {**spec, "transform": {"sql": sql}}


@dataclass(frozen=True)
class Stream:
    """One stream by name."""

    kube: Kube
    name: str

    @property
    def selector(self) -> str:
        """The label that every object of the stream carries."""
        return f"penstock.dev/stream={self.name}"

    @property
    def driver_pod(self) -> str:
        """The name of the driver's pod."""
        return f"{self.name}-driver-0"

    def resource(self) -> Object:
        """The resource as it stands; empty if there is none."""
        return self.kube.get(KIND, self.name) or {}

    def status(self) -> Object:
        """Its status; empty before the first one is written."""
        status: Object = self.resource().get("status", {})
        return status

    def condition(self, kind: str) -> Object:
        """One of Ready, Reconciling, Stalled; empty if not there."""
        return next(
            (each for each in self.status().get("conditions", []) if each["type"] == kind), {}
        )

    def is_ready(self) -> bool:
        """Ready, and said of the newest generation."""
        resource = self.resource()
        status = resource.get("status", {})
        current = status.get("observedGeneration") == resource.get("metadata", {}).get("generation")
        ready = {"type": "Ready", "status": "True"}
        return current and any(
            ready.items() <= each.items() for each in status.get("conditions", [])
        )

    def wait_ready(self, timeout: float = READY_WITHIN) -> None:
        """Returns once the stream is Ready."""
        wait_for(f"{self.name} Ready", self.is_ready, timeout, self.situation)

    def executors(self) -> list[Object]:
        """Its executor pods that have not ended."""
        pods = self.kube.select("pods", f"{self.selector},app.kubernetes.io/component=executor")
        return [each for each in pods if each["status"].get("phase") in ("Pending", "Running")]

    def restarts(self, level: str) -> int:
        """The restarts counted so far at one level of the ladder."""
        return int(self.status().get("restarts", {}).get(level, 0))

    def epoch(self) -> int:
        """The last committed epoch in the status; -1 before the first."""
        epoch = self.status().get("epoch")
        return -1 if epoch is None else int(epoch)

    def situation(self) -> str:
        """What someone would look at if the stream does not do what it should."""
        parts: list[Any] = [json.dumps(self.status(), indent=1)]
        parts.append(self.kube.run("get", "pods", "-o", "wide"))
        parts.append("\n".join(self.kube.events(self.name)[-10:]))
        parts.append("\n".join(self.kube.events(self.driver_pod)[-10:]))
        if self.kube.get("pod", self.driver_pod):
            parts.append(self._log())
            parts.append("before its restart:\n" + self._log("--previous"))
        return "\n---\n".join(map(str, parts))

    def _log(self, *options: str) -> str:
        from testkit.kubernetes.kubectl import KubectlError

        try:
            return self.kube.run("logs", self.driver_pod, "--tail=60", *options)
        except KubectlError as error:
            return str(error)


class Stopwatch:
    """Seconds since it was made, for what a test prints."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._start
