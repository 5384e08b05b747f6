"""The image of a kind node: the one that kind publishes, or our own if no registry is reachable.

Our own image is Debian with systemd, containerd, and Kubernetes compiled from its Go modules. No
traffic leaves the machine from it: see node/kind/entrypoint.
"""

import shutil
import tempfile
from pathlib import Path

from testkit.commands import print_progress, run
from testkit.content_hash import content_hash
from testkit.engine.container_engine import engine
from testkit.images.base_image import ensure_base
from testkit.images.program_image import write_archive
from testkit.images.registry import registry_is_reachable
from testkit.paths import HERE, cache_dir
from testkit.tools import tool_key, tools
from testkit.tools.pins import (
    chosen_kubernetes,
    debian_release,
    kubernetes_version,
    published_node_image,
)

PAUSE = "localhost/penstock/pause:1"

_LABEL = "penstock.dev/node"
_PULL_SECONDS = 900
_ASSETS = HERE / "images" / "node"
_NODE_PROGRAMS = ("kubeadm", "kubelet", "kubectl", "kube-proxy", "nodenet")
_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
_EVERY_NODE = ("coredns", "pause")
_PROGRAMS = (*_NODE_PROGRAMS, *_CONTROL_PLANE, *_EVERY_NODE)


def possible_node_images() -> tuple[str, str]:
    """The references of the published image and of our own; asks no registry, builds nothing."""
    return published_node_image(), _own_ref()


def ensure_node_image() -> str:
    """The reference of the image for a new node; builds our own if that is it and is missing."""
    published, own = possible_node_images()
    if engine().has_image(own):
        return own
    if _may_pull():
        _pull(published)
        return published
    _build(own)
    return own


def _may_pull() -> bool:
    """Whether the published image is used. It has another version than PENSTOCK_KUBERNETES."""
    return chosen_kubernetes() is None and registry_is_reachable()


def _pull(ref: str) -> None:
    if not engine().has_image(ref):
        print_progress(f"pulling {ref}")
        engine().run("pull", "--quiet", ref, timeout=_PULL_SECONDS)


def missing_programs() -> tuple[str, ...]:
    """The tools from which `ensure_node_image` would build an image; none if it needs none."""
    if engine().has_image(_own_ref()) or _may_pull():
        return ()
    return _PROGRAMS


def is_own(ref: str) -> bool:
    """Whether a node image that is here is our own, which lets no traffic out by itself.

    A registry may have it under the name of the published one.
    """
    return engine().label(ref, _LABEL) != ""


def _own_ref() -> str:
    found = kubernetes_version()
    programs = [tool_key(name) for name in _PROGRAMS]
    release = debian_release("node")
    key = content_hash(_ASSETS, HERE / "images" / "program_image.py", programs, release)
    return f"localhost/penstock/node:{found}-{key}"


def _build(ref: str) -> None:
    programs = tools(*_PROGRAMS)
    ensure_node_base()
    print_progress("building the node image")
    context = Path(tempfile.mkdtemp(prefix="node-", dir=cache_dir("debian")))
    try:
        shutil.copytree(_ASSETS, context, dirs_exist_ok=True)
        (context / "bin").mkdir()
        for name in _NODE_PROGRAMS:
            shutil.copy(programs[name], context / "bin" / name)
        (context / "kind" / "version").write_text(kubernetes_version() + "\n")
        (context / "images").mkdir()
        _write_images(programs, context / "images")
        engine().build(context, context / "Dockerfile", ref)
    finally:
        shutil.rmtree(context)
    old = [each for each in engine().images("localhost/penstock/node") if each != ref]
    engine().remove_images(old)


def ensure_node_base() -> None:
    """Builds our own image's layer of Debian packages, if it is missing."""
    ensure_base(debian_release("node"))
    dockerfile = _ASSETS / "Dockerfile"
    engine().build(_ASSETS, dockerfile, "localhost/penstock/node-base:latest", target="base")


def _write_images(programs: dict[str, Path], folder: Path) -> None:
    """Writes the images of the node's own pods, under the names that this kubeadm expects."""
    version = kubernetes_version()
    listed = run(
        [programs["kubeadm"], "config", "images", "list", "--kubernetes-version", version]
    ).split()
    refs = {ref.rpartition(":")[0].rpartition("/")[2]: ref for ref in listed}
    write_archive(
        folder / "all.tar",
        {refs["coredns"]: (programs["coredns"], "/coredns"), PAUSE: (programs["pause"], "/pause")},
    )
    write_archive(
        folder / "control-plane.tar",
        {refs[name]: (programs[name], f"/usr/local/bin/{name}") for name in _CONTROL_PLANE},
    )
