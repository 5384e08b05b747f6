"""Copies images from the container engine to the containerd of each node."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from testkit.cluster.access import Cluster
from testkit.commands import print_progress
from testkit.engine.container_engine import engine
from testkit.file_lock import file_lock
from testkit.images import oci_layout
from testkit.images.penstock_images import build_example_images, build_images
from testkit.images.program_image import write_archive
from testkit.paths import cache_dir
from testkit.tools import tool, tool_key

_IMPORT_SECONDS = 600


def load(cluster: Cluster, refs: Sequence[str], nodes: Sequence[str] = ()) -> None:
    """Loads these images into the nodes that lack them, by default only the first."""
    with file_lock("load-images"):
        for node in nodes or cluster.nodes[:1]:
            there = _images_on(cluster, node)
            for ref in refs:
                if ref not in there:
                    print_progress(f"loading {ref} into {node}")
                    _load(cluster, node, ref)


_CTR = ("ctr", "-n", "k8s.io")


def _images_on(cluster: Cluster, node: str) -> set[str]:
    return set(cluster.on_node(node, *_CTR, "images", "ls", "-q").split())


def _load(cluster: Cluster, node: str, ref: str) -> None:
    archive = cache_dir("engine") / "image.tar"
    try:
        if engine().name == "podman":
            present = cluster.on_node(node, *_CTR, "content", "ls", "-q").split()
            oci_layout.write_missing(_exported(ref), ref, present, archive)
        else:
            engine().save(ref, archive)
        _import(archive, node)
    finally:
        archive.unlink(missing_ok=True)


def _import(archive: Path, node: str) -> None:
    command = ["exec", "-i", node, *_CTR, "images", "import", "-"]
    engine().feed(archive, *command, timeout=_IMPORT_SECONDS)


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


def ensure_program_image(name: str, cluster: Cluster) -> str:
    """Loads an image of a pinned tool, which is its /NAME, into the first node of the cluster.

    The container engine has no copy of it: it is written in a second.
    """
    program = tool(name)
    ref = f"localhost/penstock/{name}:{tool_key(name).removeprefix(f'{name}-')}"
    node = cluster.nodes[0]
    with file_lock("load-images"), tempfile.TemporaryDirectory() as folder:
        if ref not in _images_on(cluster, node):
            print_progress(f"loading {ref} into {node}")
            archive = Path(folder) / "image.tar"
            write_archive(archive, {ref: (program, f"/{name}")})
            _import(archive, node)
    return ref
