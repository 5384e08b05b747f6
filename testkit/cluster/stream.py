"""A ContinuousStream on the cluster, as a user sees it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.cluster import kinds
from penstock.contract import naming
from penstock.driver.environment import generation_folder
from testkit.errors import KubectlError
from testkit.kubernetes.kubectl import Kube, Object
from testkit.kubernetes.looks import look_at, look_for
from testkit.streams.streams import manifest
from testkit.wait import wait_for

KIND = "continuousstreams.penstock.dev"

T = TypeVar("T")

# The cluster, the driver and the executors share two cores, so a start can take minutes.
READY_SECONDS = 240.0


# Of a small stream, on a machine with two cores.
SMALL_EXECUTORS = {
    "cores": 2,
    "javaOptions": ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
    "resources": {"requests": {"cpu": "100m", "memory": "896Mi"}},
}
IN_DRIVER = {"mode": "InDriver"}


def small_stream(name: str, spec: Object) -> Object:
    """A ContinuousStream with small pods and short starts, for a machine with two cores."""
    small = {
        "driver": {"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
        "executor": SMALL_EXECUTORS,
    }
    return manifest(name, {**small, **spec})


@dataclass(frozen=True)
class Stream:
    kube: Kube
    name: str

    @property
    def selector(self) -> str:
        """The label that every object of the stream carries."""
        return f"{naming.LABEL_STREAM}={self.name}"

    @property
    def driver_pod(self) -> str:
        return f"{self.name}-driver-0"

    def delete_driver_pod(self) -> None:
        """It has no time to stop cleanly."""
        self.kube.run("delete", "pod", self.driver_pod, "--grace-period=0", "--force")

    def resource(self) -> Object:
        return look_at(self.kube, kinds.STREAM, self.name) or {}

    def generation(self) -> int:
        """The generation of the checkpoint that runs."""
        return int(self.status()["effective"]["checkpointGeneration"])

    def edit(self, **fields: Any) -> None:
        patch = json.dumps({"spec": fields})
        self.kube.run("patch", KIND, self.name, "--type=merge", "-p", patch)

    def pods(self) -> list[Object]:
        return look_for(self.kube, kinds.POD, {naming.LABEL_STREAM: self.name})

    def status(self) -> Object:
        """Its status; empty before the operator has written one."""
        status: Object = self.resource().get("status", {})
        return status

    def condition(self, kind: str) -> Object:
        """The condition of this type; empty if there is none."""
        return next(
            (
                condition
                for condition in self.status().get("conditions", [])
                if condition["type"] == kind
            ),
            {},
        )

    def is_ready(self) -> bool:
        """As `kubectl wait` sees it: by its newest spec, and not while an edit is judged."""
        resource = self.resource()
        generation = resource.get("metadata", {}).get("generation")
        ready = {"type": "Ready", "status": "True", "observedGeneration": generation}
        conditions = resource.get("status", {}).get("conditions", [])
        return any(ready.items() <= condition.items() for condition in conditions)

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        self.wait_for(f"{self.name} Ready", self.is_ready, seconds)

    def wait_stalled(self, reason: str) -> None:
        self.wait_for(
            f"Stalled by {reason}", lambda: self.condition("Stalled").get("reason") == reason, 120
        )

    def wait_for(self, what: str, look: Callable[[], T], seconds: float) -> T:
        """Waits until `look` returns something true; a failure shows the stream and its pods."""
        return wait_for(what, look, seconds, self.describe, every=0.5)

    def executors(self) -> list[Object]:
        labels = naming.stream_labels(self.name, naming.COMPONENT_EXECUTOR)
        pods = look_for(self.kube, kinds.POD, labels)
        return [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]

    def objects_left(self) -> list[str]:
        """The names of its objects that should go with it."""
        kinds = "pods,configmaps,statefulsets,serviceaccounts,rolebindings"
        return [child["metadata"]["name"] for child in self.kube.select(kinds, self.selector)]

    def restarts(self, level: str) -> int:
        """The restarts counted so far at one level: query, process or pod."""
        return int(self.status().get("restarts", {}).get(level, 0))

    def container_restarts(self) -> int:
        """How often the kubelet has restarted the container of the driver's pod."""
        pod = self.kube.get("pod", self.driver_pod) or {}
        containers = pod.get("status", {}).get("containerStatuses", [])
        return sum(container["restartCount"] for container in containers)

    def epoch(self) -> int:
        """The last committed epoch in the status; -1 before the first commit."""
        epoch = self.status().get("epoch")
        return -1 if epoch is None else int(epoch)

    def has_committed_records(self) -> bool:
        """Whether the committed offsets in the status lie beyond the beginning of a topic."""
        return any(
            committed["offset"] > 0 for committed in self.status().get("committedOffsets", [])
        )

    def checkpoint_on_node(self) -> str:
        """The folder of its checkpoint on the node that holds the volume."""
        claim = self.kube.get("pvc", f"{self.name}-checkpoint")
        assert claim is not None
        volume = self.kube.get("pv", claim["spec"]["volumeName"])
        assert volume is not None
        path = (volume["spec"].get("hostPath") or volume["spec"]["local"])["path"]
        return f"{path}/{generation_folder(0)}"

    def describe(self) -> str:
        parts: list[Any] = [json.dumps(self.status(), indent=1)]
        parts.append(self.kube.run("get", "pods", "-o", "wide"))
        parts.append("\n".join(self.kube.events(self.name)[-10:]))
        parts.append("\n".join(self.kube.events(self.driver_pod)[-10:]))
        if self.kube.get("pod", self.driver_pod):
            parts.append(self._log())
            parts.append("before the restart:\n" + self._log("--previous"))
        return "\n---\n".join(map(str, parts))

    def _log(self, *options: str) -> str:
        try:
            return self.kube.run("logs", self.driver_pod, "--tail=60", *options)
        except KubectlError as error:
            return str(error)


class Stopwatch:
    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start
