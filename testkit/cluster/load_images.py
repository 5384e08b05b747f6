"""Copies images from the container engine to the containerd of each node."""

from collections.abc import Sequence
from pathlib import Path

from testkit.cluster.access import Cluster
from testkit.commands import print_progress
from testkit.engine.container_engine import engine
from testkit.file_lock import file_lock
from testkit.images import oci_layout
from testkit.images.penstock_images import build_example_images, build_images
from testkit.paths import cache_dir

_IMPORT_SECONDS = 600


def load(cluster: Cluster, refs: Sequence[str], nodes: Sequence[str] = ()) -> None:
    """Loads these images into the nodes that lack them, by default only the first."""
    with file_lock("load-images"):
        for node in nodes or cluster.nodes[:1]:
            there = set(cluster.on_node(node, *_CTR, "images", "ls", "-q").split())
            for ref in refs:
                if ref not in there:
                    print_progress(f"loading {ref} into {node}")
                    _load(cluster, node, ref)


_CTR = ("ctr", "-n", "k8s.io")


def _load(cluster: Cluster, node: str, ref: str) -> None:
    archive = cache_dir("engine") / "image.tar"
    try:
        if engine().name == "podman":
            present = cluster.on_node(node, *_CTR, "content", "ls", "-q").split()
            oci_layout.write_missing(_exported(ref), ref, present, archive)
        else:
            engine().save(ref, archive)
        command = ["exec", "-i", node, *_CTR, "images", "import", "-"]
        engine().feed(archive, *command, timeout=_IMPORT_SECONDS)
    finally:
        archive.unlink(missing_ok=True)


def _exported(ref: str) -> Path:
    """An OCI layout with this image. podman writes only the blobs that are not in it yet."""
    layout = cache_dir("engine") / "layout"
    engine().run(
        "save", "--format", "oci-dir", "--uncompressed", "--output", layout, ref, timeout=600
    )
    oci_layout.prune(layout, engine().images("localhost/penstock/*"))
    return layout


def ensure_example_images(cluster: Cluster, spark: str) -> dict[str, str]:
    """Builds the examples' images on this Spark image, and loads them into the first node."""
    refs = build_example_images(spark)
    load(cluster, list(refs.values()))
    return refs


def ensure_images(which: Sequence[str], cluster: Cluster) -> dict[str, str]:
    """Builds images and loads them into the first node of the cluster, which runs the pods."""
    refs = build_images(which)
    load(cluster, list(refs.values()))
    return refs
