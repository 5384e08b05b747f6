"""podman for a lean machine: no systemd, cgroup v1, few capabilities; its storage ours alone."""

import contextlib
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from testkit import system_packages
from testkit.commands import run, say
from testkit.errors import ClusterError
from testkit.paths import cache_dir

_CONTAINERS_CONF = """\
[containers]
# Without CAP_SYS_RESOURCE higher limits than these are refused.
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
log_driver = "k8s-file"

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

# Where netavark keeps what runs, whatever podman's own folders are.
_AARDVARK = Path("/run/containers/networks/aardvark-dns")

_STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{root}/storage"
runroot = "{root}/run"
"""


def root() -> Path:
    """Everything this podman keeps."""
    return cache_dir("podman")


def network() -> str:
    """The nodes' network, named apart from those of any other podman: the name server is shared."""
    return f"penstock-{hashlib.sha256(str(root()).encode()).hexdigest()[:6]}"


def private_settings() -> dict[str, str]:
    """Write the settings; return the environment that makes podman and kind use them."""
    helpers = {
        found.parent for name in ("netavark", "conmon") if (found := system_packages.which(name))
    }
    listed = ", ".join(f'"{folder}"' for folder in sorted(helpers))
    (root() / "networks").mkdir(exist_ok=True)
    containers, storage = root() / "containers.conf", root() / "storage.conf"
    containers.write_text(_CONTAINERS_CONF.format(root=root(), helpers=listed))
    storage.write_text(_STORAGE_CONF.format(root=root()))
    return {
        "CONTAINERS_CONF": str(containers),
        "CONTAINERS_STORAGE_CONF": str(storage),
        "KIND_EXPERIMENTAL_PROVIDER": "podman",
        "KIND_EXPERIMENTAL_PODMAN_NETWORK": network(),
    }


def forget_processes(podman: Callable[..., str]) -> None:
    """Make podman see that the processes it remembers are gone, and remove their containers.

    After a restart of the machine, or when a session's processes were killed, its records name
    processes, mounts and network namespaces that are no more. Without its file ``alive`` podman
    takes the machine for freshly started and lets go of them.
    """
    say("clearing what an ended session left in podman's records")
    _unmount_below(root())
    (root() / "tmp" / "alive").unlink(missing_ok=True)
    with contextlib.suppress(ClusterError):
        podman("rm", "--force", "--all", "--volumes", timeout=120)
        return
    _start_over(podman)


def clear(podman: Callable[..., str]) -> None:
    """Remove every container and the nodes' network."""
    try:
        if podman("ps", "--all", "--quiet", timeout=60).split():
            podman("rm", "--force", "--all", "--volumes", timeout=60)
    except ClusterError:
        forget_processes(podman)
    with contextlib.suppress(ClusterError):
        podman("network", "rm", "--force", network(), timeout=60)
    # A killed container's name would go on resolving, to an address that nobody has any more.
    (_AARDVARK / network()).unlink(missing_ok=True)


def _start_over(podman: Callable[..., str]) -> None:
    """The last resort: drop the whole storage. Images are built again from the cached parts."""
    say("podman's storage cannot be used any more: starting with an empty one")
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
