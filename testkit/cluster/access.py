"""A way into a running cluster: its API, and its nodes."""

from dataclasses import dataclass
from pathlib import Path

from testkit.commands import run
from testkit.engine.container_engine import engine


@dataclass(frozen=True)
class Cluster:
    """A running cluster and how to speak with it."""

    name: str
    kubeconfig: Path
    kubectl: Path
    helm: Path
    nodes: tuple[str, ...]
    """Names of the nodes, which are the names of their containers too."""

    def kube(self, *words: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """What kubectl says to these words."""
        command = [self.kubectl, "--kubeconfig", self.kubeconfig, *words]
        return run(command, stdin=stdin, timeout=timeout)

    def apply(self, manifest: str) -> None:
        """Server-side apply of YAML."""
        self.kube("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest)

    def on_node(self, node: str, *words: str, timeout: float = 120) -> str:
        """Run a command on a node, past Kubernetes."""
        return engine().run("exec", node, *words, timeout=timeout)
