"""podman with its own storage, on a machine without systemd: cgroup v1, few capabilities."""

import contextlib
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from testkit import system_packages
from testkit.commands import print_progress, run
from testkit.engine.settings_file import write_settings
from testkit.errors import ClusterError
from testkit.paths import cache_dir

_CONTAINERS_CONF = """\
[containers]
# Without CAP_SYS_RESOURCE higher limits than these are refused.
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
log_driver = "k8s-file"
# Each thread counts, and a node has many JVMs: podman's 2,048 are used up by ten streams.
pids_limit = 0

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{root}/tmp"
helper_binaries_dir = [{helpers}]

[network]
network_backend = "netavark"
network_config_dir = "{root}/networks"
"""

# netavark keeps its running state here, wherever podman's own folders are.
_AARDVARK = Path("/run/containers/networks/aardvark-dns")

_STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{root}/storage"
runroot = "{root}/run"
"""


def root() -> Path:
    return cache_dir("podman")


def network() -> str:
    """The name of the nodes' network. It is unique, because all podmans share one name server."""
    return f"penstock-{hashlib.sha256(str(root()).encode()).hexdigest()[:6]}"


def private_settings() -> dict[str, str]:
    """Writes the settings and returns the environment with which podman and kind use them."""
    helpers = {
        found.parent for name in ("netavark", "conmon") if (found := system_packages.which(name))
    }
    listed = ", ".join(f'"{folder}"' for folder in sorted(helpers))
    (root() / "networks").mkdir(exist_ok=True)
    containers, storage = root() / "containers.conf", root() / "storage.conf"
    write_settings(containers, _CONTAINERS_CONF.format(root=root(), helpers=listed))
    write_settings(storage, _STORAGE_CONF.format(root=root()))
    return {
        "CONTAINERS_CONF": str(containers),
        "CONTAINERS_STORAGE_CONF": str(storage),
        "KIND_EXPERIMENTAL_PROVIDER": "podman",
        "KIND_EXPERIMENTAL_PODMAN_NETWORK": network(),
    }


def clear_stale_records(podman: Callable[..., str]) -> None:
    """Clears podman's records of processes that no longer exist, and removes their containers.

    After a restart of the machine, or after the processes of a session were killed, the records
    name processes, mounts and network namespaces that no longer exist. Without its file `alive`
    podman assumes that the machine has just started, and drops those records.
    """
    print_progress("clearing podman's records of an ended session")
    _unmount_below(root())
    (root() / "tmp" / "alive").unlink(missing_ok=True)
    with contextlib.suppress(ClusterError):
        podman("rm", "--force", "--all", "--volumes", timeout=120)
        return
    _reset_storage(podman)


def clear(podman: Callable[..., str]) -> None:
    try:
        if podman("ps", "--all", "--quiet", timeout=60).split():
            podman("rm", "--force", "--all", "--volumes", timeout=60)
    except ClusterError:
        clear_stale_records(podman)
    with contextlib.suppress(ClusterError):
        podman("network", "rm", "--force", network(), timeout=60)
    # Otherwise the name of a killed container still resolves, to an address that nobody uses.
    (_AARDVARK / network()).unlink(missing_ok=True)


def _reset_storage(podman: Callable[..., str]) -> None:
    """Removes the whole storage. Images are then built again from cached parts."""
    print_progress("podman's storage is damaged: starting with an empty one")
    _unmount_below(root())
    for part in ("storage", "run", "tmp", "networks"):
        shutil.rmtree(root() / part, ignore_errors=True)
    (root() / "networks").mkdir(exist_ok=True)
    podman("info", timeout=60)


def _unmount_below(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([m for m in mounts if m.startswith(f"{folder}/")]):
        with contextlib.suppress(ClusterError):
            run(["umount", "--lazy", mount], timeout=30)
