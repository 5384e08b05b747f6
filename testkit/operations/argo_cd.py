"""A real Argo CD on this machine, with the customization of examples/gitops.

Its programs run beside the API server and talk over loopback. Only a port with the controller's own
metrics is open on all addresses; no setting of Argo CD changes that.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.local.tools.child_process import ChildProcess
from testkit.commands import run
from testkit.kafka.broker import free_ports
from testkit.kubernetes.api_server import ApiServer
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT
from testkit.processes import listens, wait_until_ready
from testkit.tools import sources, tool
from testkit.tools.debian import its_libraries, redis_server

NAMESPACE = "argocd"
EXAMPLE = CHECKOUT / "examples" / "gitops" / "argocd"
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class ArgoCd:
    """A running Argo CD, as kubectl and the command `argocd` reach it."""

    kube: Kube
    """kubectl in Argo CD's namespace."""
    address: str
    """Of its API server."""
    folder: Path
    """Where `argocd` keeps that the user has logged in."""

    def run(self, *words: str) -> str:
        """Runs `argocd` as the user admin, and returns what it prints."""
        return run([tool("argocd"), *words, f"--config={self.folder / 'config'}"])

    def log_in(self) -> None:
        """Logs in with the password that Argo CD made at its first start."""
        secret = self.kube.get("secret", "argocd-initial-admin-secret")
        assert secret is not None
        password = base64.b64decode(secret["data"]["password"]).decode()
        words = ("--plaintext", "--skip-test-tls", "--username=admin", f"--password={password}")
        self.run("login", self.address, *words)


@contextlib.contextmanager
def running_argo_cd(server: ApiServer, folder: Path) -> Iterator[ArgoCd]:
    """Argo CD beside an API server, until the end of the block. All its files are in the folder."""
    kube = server.kube(NAMESPACE)
    _install(kube)
    ports = _Ports(*free_ports(3))
    started: list[ChildProcess] = []
    try:
        started.append(_start_redis(ports.redis, folder))
        for name, options in ports.options().items():
            env = _environment(name, server, folder)
            log = folder / f"{name}.log"
            started.append(ChildProcess([tool("argocd"), *options], log=log, env=env))
        wait_until_ready("Argo CD", started, ports.answer)
        argo_cd = ArgoCd(kube, f"{_HOST}:{ports.api}", folder)
        argo_cd.log_in()
        yield argo_cd
    finally:
        for process in reversed(started):
            process.kill()


@dataclass(frozen=True)
class _Ports:
    redis: int
    repositories: int
    api: int

    def options(self) -> Mapping[str, list[str]]:
        redis = f"--redis={_HOST}:{self.redis}"
        common = [
            redis,
            f"--namespace={NAMESPACE}",
            f"--repo-server={_HOST}:{self.repositories}",
            "--repo-server-plaintext",
            "--metrics-port=0",
        ]
        local = [f"--address={_HOST}", f"--metrics-address={_HOST}"]
        return {
            "argocd-repo-server": [
                redis, f"--port={self.repositories}", *local, "--metrics-port=0", "--disable-tls",
            ],
            "argocd-server": [*common, f"--port={self.api}", *local, "--insecure"],
            "argocd-application-controller": common,
        }  # fmt: skip

    def answer(self) -> bool:
        return all(map(listens, (self.redis, self.repositories, self.api)))


def _install(kube: Kube) -> None:
    """Applies Argo CD's own manifests, and then the customization as the README says it."""
    manifests = sources("argocd") / "manifests"
    kube.run("create", "namespace", NAMESPACE)
    kube.run("apply", "--server-side", "-k", manifests / "crds")
    kube.run("apply", "-k", manifests / "base" / "config")
    kube.run("patch", "configmap", "argocd-cm", "--patch-file", EXAMPLE / "argocd-cm.yaml")
    kube.wait_until_served("applications.argoproj.io")


def _start_redis(port: int, folder: Path) -> ChildProcess:
    program = redis_server()
    words = ["--port", str(port), "--bind", _HOST, "--save", "", "--dir", str(folder)]
    log = folder / "redis-server.log"
    return ChildProcess([program, *words], log=log, env=its_libraries(program))


def _environment(name: str, server: ApiServer, folder: Path) -> dict[str, str]:
    """Argo CD is one binary, which learns here what it is and where it may write."""
    return {
        "ARGOCD_BINARY_NAME": name,
        "KUBECONFIG": str(server.kubeconfig),
        # https://kubernetes.default.svc is the cluster of KUBECONFIG.
        "ARGOCD_FAKE_IN_CLUSTER": "true",
        "ARGOCD_GPG_ENABLED": "false",
        "ARGOCD_ASK_PASS_SOCK": str(folder / "ask-pass.sock"),
        "TMPDIR": str(folder),
        "HOME": str(folder),
    }
