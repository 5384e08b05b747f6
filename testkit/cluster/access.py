"""Access to a running test cluster: to its API, and to its nodes."""

from dataclasses import dataclass
from pathlib import Path

from testkit.commands import run
from testkit.engine.container_engine import engine
from testkit.kubernetes.kubectl import Kube


@dataclass(frozen=True)
class Cluster:
    """A running cluster, and the files and tools to reach it."""

    name: str
    kubeconfig: Path
    kubectl: Path
    helm: Path
    nodes: tuple[str, ...]
    """The names of the nodes, which are also the names of their containers; the control plane
    first, which runs the pods."""

    def kube(self, namespace: str = "") -> Kube:
        return Kube(self.kubectl, self.kubeconfig, namespace)

    @property
    def address(self) -> str:
        """The control plane's address on the nodes' network, which includes this machine."""
        addresses = '-ojsonpath={.status.addresses[?(@.type=="InternalIP")].address}'
        return self.kube().run("get", "node", self.nodes[0], addresses).split()[0]

    def run_helm(self, namespace: str, *words: str, stdin: str | None = None) -> str:
        """Runs a command of helm in a namespace, and returns its stdout."""
        options = [f"--kubeconfig={self.kubeconfig}", f"--namespace={namespace}"]
        return run([self.helm, *words, *options], stdin=stdin, timeout=300)

    def on_node(self, node: str, *words: str, timeout: float = 120) -> str:
        return engine().run("exec", node, *words, timeout=timeout)
