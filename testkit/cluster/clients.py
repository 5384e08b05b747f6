"""kubectl, helm and kind: this machine's own where their versions fit, or compiled ones."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from testkit import system_packages
from testkit.commands import run
from testkit.errors import ClusterError
from testkit.images.registry import registry_is_reachable
from testkit.tools.build import tool
from testkit.tools.pins import chosen_kubernetes, published_node_image

# How each is asked for its version.
CLIENTS = {"kubectl": ("version", "--client"), "helm": ("version", "--short"), "kind": ("version",)}
# The first kind that starts today's node images, and the first helm with all flags that we use.
_OLDEST = {"kind": (0, 30), "helm": (3, 14)}


def client(name: str) -> Path:
    """The path of kubectl, helm or kind, which is compiled if this machine has none that fits."""
    return _own(name) or tool(name)


def missing_clients() -> Iterable[str]:
    """Those that must be compiled."""
    return tuple(name for name in CLIENTS if _own(name) is None)


@cache
def _own(name: str) -> Path | None:
    """Only where a registry is in reach: elsewhere the cluster's version is one of our own."""
    return installed(name) if registry_is_reachable() else None


def installed(name: str) -> Path | None:
    """The path of a client on PATH; None if it is missing, unknown or of another version.

    None also if PENSTOCK_KUBERNETES chooses a version: its clients are compiled.
    """
    found = system_packages.which(name)
    if found is None or chosen_kubernetes() is not None:
        return None
    try:
        said = run([found, *CLIENTS[name]], timeout=20)
    except ClusterError:
        return None
    return found if _fits(name, said, published_node_image()) else None


def _fits(name: str, said: str, node_image: str) -> bool:
    """Whether a version, as the tool prints it, works with this node image.

    kubectl supports API servers one minor version older or newer than itself
    (kubernetes.io/releases/version-skew-policy).
    """
    version, node = _minor(said), _minor(node_image)
    if version is None:
        return False
    if name != "kubectl":
        return version >= _OLDEST[name]
    return node is not None and version[0] == node[0] and abs(version[1] - node[1]) <= 1


def _minor(text: str) -> tuple[int, int] | None:
    found = re.search(r"\bv(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
