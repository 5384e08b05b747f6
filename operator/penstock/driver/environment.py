"""Where the driver runs, in its pod or on a laptop, and everything that differs between them."""

from __future__ import annotations

import glob
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.api.v1alpha1.driver_and_executor import Executor
from penstock.api.v1alpha1.spec import Observability
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming

# Where the kubelet reads why a container has ended.
TERMINATION_LOG = Path("/dev/termination-log")
_LOOPBACK = "127.0.0.1"
_API_SERVER = "https://kubernetes.default.svc"
_SCRATCH = Path("/tmp/penstock")  # noqa: S108  in the only writable folder of the container
_GENERATION = re.compile(r"generation-([0-9]+)\Z")


def generation_folder(number: object) -> str:
    """The name of the folder with a generation of the checkpoint."""
    return f"generation-{number}"


def by_number(folders: Iterable[str]) -> dict[int, str]:
    """The folders with a generation of the checkpoint, whose names end so, by number."""
    numbered = ((_GENERATION.search(folder), folder) for folder in folders)
    return {int(match[1]): folder for match, folder in numbered if match is not None}


def unknown_uid() -> str:
    """Another one each time, so that two pods are never taken for one."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class PodEnvironment:
    """A driver pod: executors are pods too, and the checkpoint is in a mounted volume."""

    pod_name: str
    pod_ip: str
    namespace: str
    pod_hash: str
    checkpoint: Path = Path(naming.CHECKPOINT_DIR) / generation_folder(0)
    """That of the first generation, with the lock of all."""
    class_path: str = ""
    termination_log: Path | None = TERMINATION_LOG
    api_server: str = _API_SERVER
    secrets: Path = Path(naming.SECRETS_DIR)
    python: Path = Path(naming.PYTHON_DIR)
    scratch: Path = _SCRATCH
    """A folder of this pod's, which lasts as long as the pod."""
    shared_checkpoint: bool = False
    """Several nodes can mount the checkpoint's volume at once (ReadWriteMany)."""
    fixed_user: bool = True
    """The operator chooses the users of pods, and not the cluster."""
    pod_uid: str = field(default_factory=unknown_uid, compare=False)
    """Known if the checkpoint is in an object store."""

    @property
    def address(self) -> str:
        """The address that Spark listens on and that executors connect to."""
        return self.pod_ip

    @property
    def executor_template(self) -> Path:
        """The pod template of executors, which Spark reads for each one."""
        return self.scratch / "executor.yaml"

    @property
    def rpc_secret(self) -> Path:
        """The file with the secret that driver and executors share."""
        return self.scratch / "rpc" / naming.RPC_KEY

    def adapted(self, stream: ContinuousStream) -> ContinuousStream:
        """The stream as it runs here: as it is."""
        return stream

    def generation(self, number: int) -> Path:
        """The checkpoint of a generation."""
        return self.checkpoint.with_name(generation_folder(number))

    def generations(self) -> dict[int, Path]:
        """The checkpoints that are there, by number."""
        return _by_number(self.checkpoint, generation_folder("*"))


@dataclass(frozen=True)
class LocalEnvironment:
    """One machine: the tasks run in the driver."""

    checkpoint: Path
    class_path: str = ""
    http_port: int | None = None
    termination_log: Path | None = None
    address: str = "127.0.0.1"
    secrets: Path = Path("secrets")
    """A folder for each Secret with a file for each key, as in a pod."""
    python: Path = Path("configmaps")
    """The same for ConfigMaps."""
    scratch: Path = _SCRATCH
    java_options: tuple[str, ...] = ()
    """Options of this machine for the JVM."""
    rows_as_json: bool = False
    """The sink gets each row as JSON in `value`, whatever its columns are (local/cases)."""
    pod_uid: str = field(default_factory=unknown_uid, compare=False)

    def adapted(self, stream: ContinuousStream) -> ContinuousStream:
        """The stream as it runs here: without pods of executors."""
        spec = stream.spec.model_copy(update={"executor": Executor(mode="InDriver")})
        return stream.model_copy(update={"spec": spec})

    def generation(self, number: int) -> Path:
        """The checkpoint of a generation: the first is the folder itself, the others beside it."""
        if number == 0:
            return self.checkpoint
        return self.checkpoint.with_name(f"{self.checkpoint.name}.{generation_folder(number)}")

    def generations(self) -> dict[int, Path]:
        """The checkpoints that are there, by number."""
        others = f"{glob.escape(self.checkpoint.name)}.{generation_folder('*')}"
        first = {0: self.checkpoint} if self.checkpoint.is_dir() else {}
        return first | _by_number(self.checkpoint, others)


def _by_number(checkpoint: Path, pattern: str) -> dict[int, Path]:
    """The generations beside the first one whose names match a pattern."""
    names = by_number(path.name for path in checkpoint.parent.glob(pattern))
    return {number: checkpoint.with_name(name) for number, name in names.items()}


Environment = PodEnvironment | LocalEnvironment


def local_ip(environment: Environment, observability: Observability) -> str:
    """The JVM's SPARK_LOCAL_IP, where Spark's web UI listens (WebUI.initServer, Spark 4.2).

    The web UI asks for no password, so only `kubectl port-forward` shall reach it. Everything else
    of Spark listens on spark.driver.host.
    """
    return _LOOPBACK if observability.ui else environment.address


def pod_environment(
    environment: Mapping[str, str], stream: ContinuousStream
) -> PodEnvironment | None:
    """The environment of the driver pod, from its environment variables; None outside one."""
    pod_name = environment.get(naming.ENV_POD_NAME)
    if not pod_name:
        return None
    return PodEnvironment(
        pod_name=pod_name,
        pod_ip=environment[naming.ENV_POD_IP],
        namespace=stream.metadata.namespace,
        pod_hash=environment.get(naming.ENV_POD_HASH, ""),
        api_server=_api_server(environment),
        shared_checkpoint=naming.ENV_SHARED_CHECKPOINT in environment,
        fixed_user=naming.ENV_ANY_USER not in environment,
        pod_uid=environment.get(naming.ENV_POD_UID) or unknown_uid(),
    )


def _api_server(environment: Mapping[str, str]) -> str:
    """The API server by its address, which every pod is given: it needs no name server."""
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if not host:
        return _API_SERVER
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
