"""etcd and a real kube-apiserver on loopback: the real API in seconds, without a node.

No controller manager and no kubelet run: no pod is scheduled, no garbage is collected, a deleted
namespace stays Terminating. So give each test its own namespace.
"""

import contextlib
import json
import secrets
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from penstock.local.tools.child_process import ChildProcess
from testkit import system_packages
from testkit.commands import run
from testkit.kafka.broker import free_ports
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT
from testkit.processes import wait_until_ready
from testkit.tools import tools

_START_SECONDS = 90
_STREAMS = "/apis/penstock.dev/v1alpha1/namespaces/default/continuousstreams"


@dataclass(frozen=True)
class ApiServer:
    """A running API server, and what a client with all rights needs."""

    url: str
    token: str
    ca: Path
    kubeconfig: Path
    kubectl: Path

    def kube(self, namespace: str = "") -> Kube:
        return Kube(self.kubectl, self.kubeconfig, namespace)

    def kubeconfig_of(self, token: str, folder: Path) -> Path:
        """A kubeconfig in the folder for somebody else, who has this token."""
        users = yaml.safe_load(self.kubeconfig.read_text())
        users["users"][0]["user"] = {"token": token}
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(users))
        return kubeconfig

    def serve_streams(self) -> None:
        """Applies the CRD, and returns when the server serves it."""
        kube = self.kube("default")
        kube.run("apply", "-f", CHECKOUT / "crds" / "penstock.dev_continuousstreams.yaml")
        kube.wait_until_served("cstream")

    def refusal(self, stream: str) -> str | None:
        """Why the server refuses to create a stream, in a strict dry run; None if it would.

        A fraction of what kubectl costs, for tables of manifests.
        """
        request = urllib.request.Request(
            f"{self.url}{_STREAMS}?dryRun=All&fieldValidation=Strict",
            data=stream.encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/yaml"},
            method="POST",
        )
        trust = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(request, timeout=60, context=trust):
                return None
        except urllib.error.HTTPError as error:
            return str(json.loads(error.read())["message"])


@contextlib.contextmanager
def api_server() -> Iterator[ApiServer]:
    """An empty API server, removed with all its data at the end of the block."""
    system_packages.require("openssl")
    found = tools("etcd", "kube-apiserver", "kubectl")
    folder = Path(tempfile.mkdtemp(prefix="penstock-api-"))
    started: list[ChildProcess] = []
    try:
        etcd_port, peer_port, api_port = free_ports(3)
        etcd_url = f"http://127.0.0.1:{etcd_port}"
        started.append(_start_etcd(found["etcd"], folder, etcd_url, peer_port))
        server = ApiServer(
            url=f"https://127.0.0.1:{api_port}",
            token=secrets.token_hex(16),
            ca=folder / "certs" / "apiserver.crt",
            kubeconfig=folder / "kubeconfig",
            kubectl=found["kubectl"],
        )
        started.append(_start_api(found["kube-apiserver"], folder, etcd_url, server))
        wait_until_ready("The API server", started, partial(_ready, server), _START_SECONDS)
        _write_kubeconfig(server)
        yield server
    finally:
        for process in reversed(started):
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _start_etcd(binary: Path, folder: Path, url: str, peer_port: int) -> ChildProcess:
    peer = f"http://127.0.0.1:{peer_port}"
    options = {
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
    }
    # The data lives only as long as the process, so nothing waits for the disk.
    return ChildProcess([binary, "--unsafe-no-fsync", *_flags(options)], log=folder / "etcd.log")


def _start_api(binary: Path, folder: Path, etcd_url: str, server: ApiServer) -> ChildProcess:
    key = folder / "service-accounts.key"
    run(["openssl", "genrsa", "-out", key, "2048"])
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(f'{server.token},admin,admin,"system:masters"\n')
    options = {
        "etcd-servers": etcd_url,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        # Nothing here uses the endpoint, and Kubernetes refuses a loopback address as one.
        "endpoint-reconciler-type": "none",
        "secure-port": server.url.rpartition(":")[2],
        "cert-dir": str(server.ca.parent),
        "token-auth-file": str(tokens),
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "10.0.0.0/24",
        "service-account-issuer": server.url,
        "service-account-key-file": str(key),
        "service-account-signing-key-file": str(key),
        # This plugin makes pods wait for service accounts, which no controller here creates.
        "disable-admission-plugins": "ServiceAccount",
        "allow-privileged": "true",
    }
    return ChildProcess([binary, *_flags(options)], log=folder / "kube-apiserver.log")


def _flags(options: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _ready(server: ApiServer) -> bool:
    request = urllib.request.Request(
        f"{server.url}/readyz", headers={"Authorization": f"Bearer {server.token}"}
    )
    try:
        trust = ssl.create_default_context(cafile=str(server.ca))
        with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ssl.SSLError):
        return False  # not yet: no certificate, no listener, or not ready


def _write_kubeconfig(server: ApiServer) -> None:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": server.url, "certificate-authority": str(server.ca)},
            }
        ],
        "users": [{"name": "admin", "user": {"token": server.token}}],
    }
    server.kubeconfig.touch(mode=0o600)
    server.kubeconfig.write_text(yaml.safe_dump(content))
