"""What is watched while faults hit a stream: its conditions, and the commits of its checkpoint."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.driver.background_threads import repeat_in_background
from testkit.cluster.access import Cluster
from testkit.cluster.stream import KIND, Stream
from testkit.errors import ClusterError
from testkit.kafka.deliveries import CommitLog
from testkit.kubernetes.kubectl import Object
from testkit.operations.argo_cd_scripts import customization

# Spark keeps the last hundred commits, and the streams here commit every one or two seconds.
_COPY_EVERY_SECONDS = 10.0


@dataclass(frozen=True)
class Seen:
    at: float
    """time.time() when it arrived."""
    ready: bool
    said: str
    """The state and the reason of the condition Ready."""
    health: str
    """The health in Argo CD."""


class StatusLog:
    """Every change of one stream's status, from one `kubectl get --watch`."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._seen: list[Seen] = []
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> StatusLog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(10)

    def unready_at(self, since: float) -> float | None:
        """When the stream was first not Ready after a moment; None if it never was."""
        return next((seen.at for seen in self._seen if seen.at >= since and not seen.ready), None)

    def said(self, since: float) -> list[str]:
        """The states and reasons since a moment, each once, in order."""
        return list(dict.fromkeys(seen.said for seen in self._seen if seen.at >= since))

    def healths(self) -> set[str]:
        """Every health that the stream had in Argo CD."""
        return {seen.health for seen in self._seen}

    def _run(self) -> None:
        kube, argo_cd = self._stream.kube, customization()
        command = [
            str(kube.kubectl), f"--kubeconfig={kube.kubeconfig}", f"--namespace={kube.namespace}",
            "get", KIND, self._stream.name, "--watch", "-o", "jsonpath={@}{\"\\n\"}",
        ]  # fmt: skip
        while not self._stop.is_set():
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as self._process:
                assert self._process.stdout is not None
                for line in self._process.stdout:
                    stream = json.loads(line)
                    status = stream.get("status", {})
                    ready = _ready(status)
                    said = f"{status.get('state')}/{ready.get('reason')}"
                    health, _ = argo_cd.health(stream)
                    is_ready = ready.get("status") == "True"
                    self._seen.append(Seen(time.time(), is_ready, said, health))
            self._stop.wait(1)


def _ready(status: Object) -> Object:
    conditions = status.get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


@contextlib.contextmanager
def commits_on_node(cluster: Cluster, stream: Stream, copy: Path) -> Iterator[CommitLog]:
    """Collects the commits of a checkpoint in the cluster, with the help of a copy of its logs."""
    folder, node = stream.checkpoint_on_node(), cluster.nodes[0]
    log = CommitLog(copy)

    def look() -> None:
        # A busy machine, or a file that was just written: the next look finds it all.
        with contextlib.suppress(ClusterError, ValueError, tarfile.TarError):
            _copy(cluster, node, folder, copy)
            log.look()

    with repeat_in_background(look, _COPY_EVERY_SECONDS):
        yield log
    look()


def _copy(cluster: Cluster, node: str, folder: str, copy: Path) -> None:
    # A file may be purged meanwhile: the archive has the others. `posix` keeps parts of seconds.
    script = f"cd {folder} && tar -cf - --format=posix commits offsets 2>/dev/null | base64 -w0"
    text = cluster.on_node(node, "bash", "-c", script)
    if not text.strip():
        return
    shutil.rmtree(copy, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text))) as archive:
        archive.extractall(copy, filter="data")
