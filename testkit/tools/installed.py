"""kubectl, kind and helm as this machine has them, where their versions fit."""

import re
from pathlib import Path

from testkit import system_packages
from testkit.commands import run
from testkit.errors import ClusterError
from testkit.tools.pins import chosen_kubernetes, published_node_image

_ASK = {"kubectl": ("version", "--client"), "kind": ("version",), "helm": ("version", "--short")}
# The first kind that starts today's node images, and the first helm with all flags that we use.
_OLDEST = {"kind": (0, 30), "helm": (3, 14)}


def installed(name: str) -> Path | None:
    """The path of a tool on PATH; None if it is missing, unknown or of another version.

    None also if PENSTOCK_KUBERNETES chooses a version: its tools are compiled.
    """
    found = system_packages.which(name) if name in _ASK else None
    if found is None or chosen_kubernetes() is not None:
        return None
    try:
        said = run([found, *_ASK[name]], timeout=20)
    except ClusterError:
        return None
    return found if fits(name, said, published_node_image()) else None


def fits(name: str, said: str, node_image: str) -> bool:
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
