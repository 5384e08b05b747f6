"""A kind cluster: made once, reused while it is healthy and made from the same inputs."""

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from testkit.cluster import isolation
from testkit.cluster.access import Cluster
from testkit.cluster.clients import client
from testkit.cluster.host import prepare_host, restore_host
from testkit.cluster.kind_config import POD_RESOLVER, kind_config
from testkit.commands import print_progress, run
from testkit.content_hash import content_hash
from testkit.engine import podman
from testkit.engine.container_engine import engine
from testkit.errors import ClusterError, WaitTimeout
from testkit.file_lock import file_lock
from testkit.images.node_image import ensure_node_image, is_own, possible_node_images
from testkit.paths import cache_dir
from testkit.wait import wait_for

# Nobody calls a cluster of their own so: what has this name is removed without a question.
NAME = "penstock-testkit"
_CREATE_SECONDS = 420
_PATIENCE_SECONDS = 60
_SHARED = "shared-volumes"
_RECORD = "state.json"
# It is there from the beginning of a creation to the end of a removal.
_CONFIG = "kind.yaml"
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def ensure_cluster(nodes: int = 1) -> Cluster:
    """A healthy cluster with at least `nodes` nodes: the running one, or a new one.

    All pods run on the first node. The others are cordoned until a test needs them.

    A running cluster is kept whichever of the two node images it was made from: whether a registry
    answers at the moment only decides about a new one.
    """
    with file_lock("cluster"):
        found = _running({_key(image) for image in possible_node_images()})
        if found is not None and len(found.nodes) >= nodes:
            return found
        if engine().name == "podman" and os.geteuid() != 0:
            raise ClusterError(
                "podman runs without root here, so this machine does not reach the cluster's "
                "addresses. Use docker, or run this as root."
            )
        image = ensure_node_image()
        _remove()
        return _create(nodes, image)


def remove_cluster() -> None:
    """Removes the cluster: processes, mounts, network, records. Images and tools stay cached."""
    with file_lock("cluster"):
        _remove()
        restore_host()


def _key(image: str) -> str:
    """What a cluster is recognized by: all that it is made from, whichever checkout made it."""
    return content_hash(image, kind_config(1, Path(POD_RESOLVER.name), Path(_SHARED)), POD_RESOLVER)


def _create(nodes: int, image: str) -> Cluster:
    print_progress(f"creating a cluster of {nodes} node(s)")
    prepare_host()
    folder = cache_dir("cluster")
    config = folder / _CONFIG
    resolver, shared = folder / POD_RESOLVER.name, folder / _SHARED
    shared.mkdir()
    shutil.copyfile(POD_RESOLVER, resolver)  # the checkout may go before the cluster
    config.write_text(kind_config(nodes, resolver, shared, is_own(image)))
    kubeconfig = folder / "kubeconfig"
    _kind(
        "create", "cluster", "--name", NAME, "--config", config, "--image", image,
        "--kubeconfig", kubeconfig, "--wait", "180s", timeout=_CREATE_SECONDS,
    )  # fmt: skip
    names = tuple(sorted(_kind("get", "nodes", "--name", NAME).split()))
    made = Cluster(NAME, kubeconfig, client("kubectl"), client("helm"), names)
    if not is_own(image):
        isolation.block_outside(made)
    _cordon_all_but_the_first(made)
    _wait_until_usable(made)
    state = {
        "key": _key(image),
        "nodes": names,
        "boot": _boot(),
        "kubectl": str(made.kubectl),
        "helm": str(made.helm),
        "kind": str(client("kind")),
    }
    (folder / _RECORD).write_text(json.dumps(state))
    return made


def _cordon_all_but_the_first(cluster: Cluster) -> None:
    """Pods run on the control plane, which a cluster with workers keeps free of them otherwise."""
    control_plane, *workers = cluster.nodes
    if workers:
        kube = cluster.kube()
        kube.run("taint", "nodes", control_plane, f"{_CONTROL_PLANE}:NoSchedule-")
        kube.run("cordon", *workers)


def _wait_until_usable(cluster: Cluster) -> None:
    """Waits until the cluster accepts pods and resolves names. One DNS server is enough here."""
    kube, system = cluster.kube(), cluster.kube("kube-system")
    system.run("scale", "deployment/coredns", "--replicas=1")
    kube.run("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s", timeout=130)
    system.run("rollout", "status", "deployment/coredns", "--timeout=120s", timeout=130)
    try:
        wait_for(
            "the default service account",
            lambda: "default" in kube.run("get", "serviceaccounts", "-o", "name"),
            30,
            every=0.5,
        )
    except WaitTimeout as error:
        raise ClusterError(
            "The controller manager creates no service account. Run `python -m testkit down`, "
            "then `up`."
        ) from error


def _running(keys: set[str]) -> Cluster | None:
    """The recorded cluster, if it has one of these keys, ran since the last boot, and answers."""
    state = _record()
    if state.get("boot") != _boot() or state.get("key") not in keys:
        return None
    kubectl, helm = (Path(state.get(name, "")) for name in ("kubectl", "helm"))
    if not (kubectl.is_file() and helm.is_file()):
        return None
    kubeconfig = cache_dir("cluster") / "kubeconfig"
    found = Cluster(NAME, kubeconfig, kubectl, helm, tuple(state["nodes"]))
    return found if _healthy(found) else None


def _healthy(cluster: Cluster) -> bool:
    """Whether the cluster answers and every node is ready. A busy cluster gets a minute."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not _answers(cluster):
        if time.monotonic() > deadline or not _containers_run(cluster):
            return False
        time.sleep(1)
    return True


def _answers(cluster: Cluster) -> bool:
    kube = cluster.kube()
    conditions = '-ojsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    try:
        kube.run("get", "--raw", "/readyz", "--request-timeout=10s", timeout=15)
        ready = kube.run("get", "nodes", "--request-timeout=10s", conditions, timeout=15)
    except ClusterError:
        return False
    return ready.split() == ["True"] * len(cluster.nodes)


def _containers_run(cluster: Cluster) -> bool:
    try:
        for node in cluster.nodes:
            cluster.on_node(node, "true", timeout=30)
    except ClusterError:
        return False
    return True


def _remove() -> None:
    """Removes all parts of the cluster, also those that a killed session left behind."""
    container_engine = engine()
    if container_engine.private:
        with contextlib.suppress(ClusterError):  # nothing is left of it after the next line
            _kind("delete", "cluster", "--name", NAME, timeout=120)
        podman.clear(container_engine.run)
    elif (cache_dir("cluster") / _CONFIG).exists():
        _kind("delete", "cluster", "--name", NAME, timeout=120)
    for name in (_RECORD, "kubeconfig", _CONFIG):
        (cache_dir("cluster") / name).unlink(missing_ok=True)
    shutil.rmtree(cache_dir("cluster") / _SHARED, ignore_errors=True)


def _kind(*words: str | Path, timeout: float = 60) -> str:
    return run([_kind_program(), *words], env=engine().env, timeout=timeout)


def _kind_program() -> Path:
    """The one that made the cluster, if it is still there: no registry is asked to remove it."""
    recorded = Path(_record().get("kind", ""))
    return recorded if recorded.is_file() else client("kind")


def _record() -> dict[str, Any]:
    """What was noted of the cluster when it was made; empty without one."""
    try:
        state: dict[str, Any] = json.loads((cache_dir("cluster") / _RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return state


def _boot() -> str:
    """An identifier that changes when the machine restarts, which ends every cluster."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
