"""A fake Kubernetes: an API server that stores pods, and a kubelet that runs executors.

The pods that Spark creates become processes on this machine, started from their manifests like the
image's entry point does. So tests can use separate executors without a cluster.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from penstock.cluster import kinds
from penstock.driver import jvm
from penstock.driver.environment import PodEnvironment
from testkit.driver.class_archive import java_options

Pod = dict[str, Any]
# Of the driver: not loopback's own.
POD_IP = "127.0.0.2"
# Polls instead of watches: the fake API server has no watch.
POLLING = {
    "spark.kubernetes.executor.enableApiWatcher": "false",
    "spark.kubernetes.executor.apiPollingInterval": "1s",
}
# No executor gets more, since several run on this machine.
_HEAP_MEBIBYTES = 600


def driver_pod(kubelet: Kubelet, folder: Path) -> PodEnvironment:
    """Where the driver of the stream `numbers` runs."""
    return PodEnvironment(
        "numbers-driver-0", POD_IP, "payments", "hash",
        checkpoint=folder / "checkpoint", api_server=kubelet.url, scratch=folder / "scratch",
    )  # fmt: skip


class Kubelet:
    """Runs pods up to a number of executors (`room`); further pods stay Pending."""

    def __init__(self, class_path: str, logs: Path) -> None:
        self.pods: dict[str, Pod] = {}
        self.secrets: dict[str, Pod] = {}
        self.made: list[Pod] = []
        self.room = 1_000
        """The number of executors that may run."""
        self.options: list[str] = []
        """More options of the executors' JVMs."""
        self.options_of_first: list[str] = []
        """Those of the first executor that runs."""
        self.used: set[str] = set()
        """The kinds of resources in the API requests."""
        self._class_path = class_path
        # Not within a request of Spark, which waits 10 s: the archive may take half a minute.
        self._java_options = java_options(class_path)
        self._logs = logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, name: str, labels: dict[str, str]) -> None:
        with self._lock:
            self.pods[name] = {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "uid": name, "labels": labels},
                "status": {"phase": "Running"},
            }  # fmt: skip

    def executors(self) -> list[str]:
        """The names of the pods whose processes run."""
        with self._lock:
            return [name for name, it in self._processes.items() if it.poll() is None]

    def make_room(self) -> None:
        with self._lock:
            self.room = 1_000
            for name in list(self.pods):
                if self.pods[name]["status"]["phase"] == "Pending":
                    self._run(name)

    def kill(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait()

    def run_intruder(self) -> int:
        """Runs the command of the newest executor with another secret; returns its exit code."""
        with self._lock:
            name, pod = f"{self.made[-1]['metadata']['name']}0", self.made[-1]
            other = {"data": {"secret": base64.b64encode(b"guessed").decode()}}
            mounted, real = _mounted_secrets(pod).values(), self.secrets
            self.secrets = real | dict.fromkeys(mounted, other)
            self.pods[name] = {**pod, "metadata": {**pod["metadata"], "uid": "intruder"}}
            self._run(name)
            self.secrets = real
        code = self._processes[name].wait(60)
        self._delete(name)
        return code

    def close(self) -> None:
        for name in list(self.pods):
            self._delete(name)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _create(self, pod: Pod) -> Pod:
        with self._lock:
            name = pod["metadata"]["name"]
            pod["metadata"] |= {"uid": f"{name}-{len(self.made)}", "resourceVersion": "1"}
            pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
            pod["status"] = {"phase": "Pending"}
            self.pods[name] = pod
            self.made.append(pod)
            if len(self.executors()) < self.room:
                self._run(name)
            return pod

    def _delete(self, name: str) -> bool:
        with self._lock:
            process = self._processes.pop(name, None)
            if process is not None:
                process.kill()
                process.wait()
            return self.pods.pop(name, None) is not None

    def _run(self, name: str) -> None:
        (container,) = self.pods[name]["spec"]["containers"]
        assert container["args"] == ["executor"]
        given = {variable["name"]: variable.get("value", "") for variable in container["env"]}
        options = [given[key] for key in sorted(given) if key.startswith("SPARK_JAVA_OPT_")]
        for path, secret in _mounted_secrets(self.pods[name]).items():
            folder = self._mount(self.pods[name]["metadata"]["uid"], self.secrets[secret])
            options = [option.replace(path, str(folder)) for option in options]
        more, self.options_of_first = self.options_of_first or self.options, []
        options = [*self._java_options, *options, "-Dspark.master=k8s://", *more]
        # As the driver's JVM, for its class path: the archive of classes works only with that.
        heap = min(_HEAP_MEBIBYTES, int(given["SPARK_EXECUTOR_MEMORY"].removesuffix("m")))
        *java, _ = jvm.command(heap, self._class_path, options)
        for option in jvm.COMMON_OPTIONS:
            java.remove(option)  # an executor has only those that Spark hands on
        command = [
            *java, "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
            "--driver-url", given["SPARK_DRIVER_URL"],
            "--executor-id", given["SPARK_EXECUTOR_ID"],
            "--cores", given["SPARK_EXECUTOR_CORES"],
            "--app-id", given["SPARK_APPLICATION_ID"],
            "--hostname", "127.0.0.1",
            "--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"],
            "--podName", name,
        ]  # fmt: skip
        environment = {
            **os.environ,
            "SPARK_USER": given["SPARK_USER"],
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._logs),
        }
        with (self._logs / f"{self.pods[name]['metadata']['uid']}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log
            )
        self.pods[name]["status"] = {"phase": "Running"}

    def _mount(self, pod: str, secret: Pod) -> Path:
        """A folder with the data of a Secret, instead of the path that the pod asks for."""
        folder = self._logs / f"{pod}-secret"
        folder.mkdir(exist_ok=True)
        for key, value in secret["data"].items():
            (folder / key).write_bytes(base64.b64decode(value))
        return folder

    def _seen(self) -> list[Pod]:
        with self._lock:
            for name, process in self._processes.items():
                if (code := process.poll()) is not None:
                    ended = {"state": {"terminated": {"exitCode": code, "reason": "Error"}}}
                    self.pods[name]["status"] = {"phase": "Failed", "containerStatuses": [ended]}
            return list(self.pods.values())

    def _select(self, query: dict[str, list[str]]) -> list[Pod]:
        text = query.get("labelSelector", [""])[0]
        wanted = dict(pair.split("=", 1) for pair in text.split(",") if re.match(r"[^!=]+=", pair))
        return [
            pod
            for pod in self._seen()
            if wanted.items() <= pod["metadata"].get("labels", {}).items()
        ]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        kubelet = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name, query = self._asked()
                if f"/{kinds.STREAM.plural}/" in self.path:
                    self._answer(200, {"kind": kinds.STREAM.kind, "metadata": {}})  # no status yet
                elif name is None:
                    items = kubelet._select(query) if "/pods" in self.path else []
                    meta = {"resourceVersion": "1"}
                    self._answer(
                        200,
                        {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items},
                    )
                elif name in kubelet.pods:
                    self._answer(200, kubelet.pods[name])
                else:
                    self._answer(404, {"kind": "Status", "code": 404})

            def do_POST(self) -> None:
                self._asked()
                body = self._body()
                if body["kind"] == "Secret":
                    created = kubelet.secrets.setdefault(body["metadata"]["name"], body) is body
                    self._answer(201 if created else 409, {"kind": "Status"})
                else:
                    self._answer(201, kubelet._create(body))

            def do_PATCH(self) -> None:
                name, _ = self._asked()
                body = self._body()
                assert name is not None
                metadata = kubelet.pods[name]["metadata"]
                for part in ("annotations", "labels"):
                    metadata.setdefault(part, {}).update(body["metadata"].get(part, {}))
                self._answer(200, kubelet.pods[name])

            def do_DELETE(self) -> None:
                self._body()
                name, query = self._asked()
                names = (
                    [pod["metadata"]["name"] for pod in kubelet._select(query)]
                    if name is None
                    else [name]
                )
                gone = [name for name in names if kubelet._delete(name)]
                code = 404 if name is not None and not gone else 200
                self._answer(code, {"kind": "Status", "apiVersion": "v1", "code": code})

            def _asked(self) -> tuple[str | None, dict[str, list[str]]]:
                parts = urlsplit(self.path)
                _, _, in_namespace = parts.path.partition("/namespaces/")
                kubelet.used.add(in_namespace.split("/")[1])
                _, _, name = parts.path.partition("/pods/")
                return (name or None), parse_qs(parts.query)

            def _body(self) -> Any:
                length = int(self.headers.get("Content-Length") or 0)
                return json.loads(self.rfile.read(length) or b"{}")

            def _answer(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def _mounted_secrets(pod: Pod) -> dict[str, str]:
    """The names of the Secrets that the executor mounts, by path."""
    volumes = {volume["name"]: volume.get("secret") for volume in pod["spec"]["volumes"]}
    (container,) = pod["spec"]["containers"]
    return {
        mount["mountPath"]: secret["secretName"]
        for mount in container["volumeMounts"]
        if (secret := volumes[mount["name"]]) is not None
    }
