"""Brings images from the engine to the nodes' containerd."""

from collections.abc import Sequence

from e2e.cluster.cluster import Cluster
from e2e.cluster.engine import engine
from e2e.cluster.paths import cache_dir
from e2e.cluster.proc import say

_IMPORT_SECONDS = 600


def load(cluster: Cluster, refs: Sequence[str]) -> None:
    """See that every node has these images."""
    for node in cluster.nodes:
        there = set(cluster.on_node(node, "ctr", "-n", "k8s.io", "images", "ls", "-q").split())
        for ref in refs:
            if ref not in there:
                say(f"loading {ref} into {node}")
                _load(node, ref)


def _load(node: str, ref: str) -> None:
    archive = cache_dir("engine") / "image.tar"
    try:
        engine().save([ref], archive)
        engine().feed(
            archive, "exec", "-i", node, "ctr", "-n", "k8s.io", "images", "import", "-",
            timeout=_IMPORT_SECONDS,
        )  # fmt: skip
    finally:
        archive.unlink(missing_ok=True)
