"""Where the driver runs: in its pod, or on somebody's laptop. Everything that differs is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming

# The first life of a stream. Starting anew will count this up and keep the old one beside it.
FIRST_GENERATION = "generation-0"


@dataclass(frozen=True)
class PodEnvironment:
    """A driver pod: executors are pods too, and the checkpoint is a mounted volume."""

    pod_name: str
    pod_ip: str
    namespace: str
    spec_hash: str
    checkpoint: Path = Path(naming.CHECKPOINT_DIR) / FIRST_GENERATION
    class_path: str = ""
    http_port: int | None = naming.HTTP_PORT
    termination_log: Path | None = Path("/dev/termination-log")
    api_server: str = "https://kubernetes.default.svc"
    secrets: Path = Path(naming.SECRETS_DIR)
    python: Path = Path(naming.PYTHON_DIR)

    @property
    def address(self) -> str:
        """Where Spark listens and how executors reach it."""
        return self.pod_ip


@dataclass(frozen=True)
class LocalEnvironment:
    """One machine: driver and tasks share a JVM, `local[N]` with a core for each partition."""

    checkpoint: Path
    class_path: str = ""
    http_port: int | None = None
    termination_log: Path | None = None
    spec_hash: str = "local"
    address: str = "127.0.0.1"
    secrets: Path = Path("secrets")
    """Laid out as in a pod: a folder for each Secret, a file for each key."""
    python: Path = Path("configmaps")
    """The same of ConfigMaps."""


Environment = PodEnvironment | LocalEnvironment


def pod_environment(
    environment: Mapping[str, str], stream: ContinuousStream
) -> PodEnvironment | None:
    """The place that the pod's environment tells of; None outside a pod of the operator's."""
    pod_name = environment.get(naming.ENV_POD_NAME)
    if not pod_name:
        return None
    return PodEnvironment(
        pod_name=pod_name,
        pod_ip=environment[naming.ENV_POD_IP],
        namespace=stream.metadata.namespace,
        spec_hash=environment.get(naming.ENV_SPEC_HASH, ""),
    )
