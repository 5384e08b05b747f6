"""A kind cluster: made once, reused while it is healthy and made from the same inputs."""

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator
from pathlib import Path

from testkit.cluster import isolation
from testkit.cluster.access import Cluster
from testkit.cluster.host import prepare_host, restore_host
from testkit.cluster.kind_config import kind_config
from testkit.commands import run, say
from testkit.content_hash import content_hash
from testkit.engine import podman
from testkit.engine.container_engine import engine
from testkit.errors import ClusterError
from testkit.images.node_image import ensure_node_image, is_own
from testkit.paths import cache_dir
from testkit.tools import tool, tools

NAME = "penstock"
_CREATE_SECONDS = 420
_PATIENCE_SECONDS = 60


def ensure(nodes: int = 1) -> Cluster:
    """A healthy cluster of at least this many nodes: the one that runs, or a new one."""
    with _lock():
        image = ensure_node_image()
        key = content_hash(image, kind_config(1))
        found = _running(key)
        if found is not None and len(found.nodes) >= nodes:
            return found
        _remove()
        return _create(nodes, image, key)


def current() -> Cluster | None:
    """The cluster that runs now, if one does and it answers."""
    return _running(None)


def down() -> None:
    """Remove the cluster: processes, mounts, network, records. Images and tools stay cached."""
    with _lock():
        _remove()
        restore_host()


def _create(nodes: int, image: str, key: str) -> Cluster:
    say(f"creating a cluster of {nodes} node(s)")
    prepare_host()
    folder = cache_dir("cluster")
    config = folder / "kind.yaml"
    config.write_text(kind_config(nodes, is_own(image)))
    kubeconfig = folder / "kubeconfig"
    _kind(
        "create", "cluster", "--name", NAME, "--config", config, "--image", image,
        "--kubeconfig", kubeconfig, "--wait", "180s", timeout=_CREATE_SECONDS,
    )  # fmt: skip
    names = tuple(sorted(_kind("get", "nodes", "--name", NAME).split()))
    made = _cluster(names)
    if not is_own(image):
        isolation.shut(made)
    _settle(made)
    (folder / "state.json").write_text(json.dumps({"key": key, "nodes": names, "boot": _boot()}))
    return made


def _settle(cluster: Cluster) -> None:
    """Wait until pods can be made and names resolved; one DNS server is enough here."""
    cluster.kube("-n", "kube-system", "scale", "deployment/coredns", "--replicas=1")
    cluster.kube("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s", timeout=130)
    rollout = ["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s"]
    cluster.kube(*rollout, timeout=130)
    for _ in range(60):
        if "default" in cluster.kube("get", "serviceaccounts", "-o", "name"):
            return
        time.sleep(0.5)
    raise ClusterError("the controller manager makes no service accounts: `down`, then `up` again")


def _running(key: str | None) -> Cluster | None:
    """The recorded cluster, if it is of this key (when given), of this boot, and answers."""
    try:
        state = json.loads((cache_dir("cluster") / "state.json").read_text())
    except (OSError, ValueError):
        return None
    if state.get("boot") != _boot() or (key is not None and state.get("key") != key):
        return None
    found = _cluster(tuple(state["nodes"]))
    return found if _healthy(found) else None


def _healthy(cluster: Cluster) -> bool:
    """Whether it answers with every node ready; a busy one is given time, a dead one is not."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not _answers(cluster):
        if time.monotonic() > deadline or not _containers_run(cluster):
            return False
        time.sleep(1)
    return True


def _answers(cluster: Cluster) -> bool:
    conditions = '-ojsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    try:
        cluster.kube("get", "--raw", "/readyz", "--request-timeout=10s", timeout=15)
        ready = cluster.kube("get", "nodes", "--request-timeout=10s", conditions, timeout=15)
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
    """Take away whatever there is of the cluster, also what a killed session left half dead."""
    found = engine()
    with contextlib.suppress(ClusterError):
        _kind("delete", "cluster", "--name", NAME, timeout=120)
    if found.private:
        podman.clear(found.run)
    for name in ("state.json", "kubeconfig", "kind.yaml"):
        (cache_dir("cluster") / name).unlink(missing_ok=True)


def _cluster(nodes: tuple[str, ...]) -> Cluster:
    found = tools("kubectl", "helm")
    kubeconfig = cache_dir("cluster") / "kubeconfig"
    return Cluster(NAME, kubeconfig, found["kubectl"], found["helm"], nodes)


def _kind(*words: str | Path, timeout: float = 60) -> str:
    return run([tool("kind"), *words], env=engine().env, timeout=timeout)


def _boot() -> str:
    """Changes when the machine restarts: whatever ran before is gone then."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Two processes never create or remove the cluster at once."""
    with (cache_dir() / "cluster.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
