"""Reads versions.toml, and what another Kubernetes needs otherwise."""

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from testkit.errors import ClusterError
from testkit.paths import HERE

LOCAL_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "actionlint", "versitygw")
"""What the tests on this machine run; a cluster needs more."""


@dataclass(frozen=True)
class Module:
    """One published module of Go."""

    path: str
    version: str

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"


@dataclass(frozen=True)
class GoTool:
    """One command that Go compiles."""

    name: str
    package: str
    """Its main package: an import path, or ./NAME for a program of our own."""
    source: Path | None = None
    """The folder of a program of our own."""
    alone: Module | None = None
    """The only module that its go.mod requires; None if it shares one with the other tools."""


def chosen_kubernetes() -> str | None:
    """PENSTOCK_KUBERNETES: a minor version, such as 1.33; None for that of versions.toml."""
    return os.environ.get("PENSTOCK_KUBERNETES") or None


@cache
def _versions() -> dict[str, Any]:
    versions = _read(HERE / "versions.toml")
    chosen = chosen_kubernetes()
    if chosen is not None:
        for name, pin in _read(_other_kubernetes(chosen)).items():
            versions[name] |= pin
    return versions


def _other_kubernetes(minor: str) -> Path:
    found = {path.stem.partition("-")[2]: path for path in HERE.glob("kubernetes-*.toml")}
    if minor not in found:
        raise ClusterError(
            f"PENSTOCK_KUBERNETES={minor}: there is {', '.join(sorted(found))}, and without it "
            "the version of testkit/versions.toml"
        )
    return found[minor]


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def _pins() -> dict[str, dict[str, Any]]:
    return {name: pin for name, pin in _versions().items() if name != "debian"}


def debian_release(use: Literal["images", "node"]) -> str:
    """The Debian release of Penstock's images, or of the cluster's node."""
    return str(_versions()["debian"][use])


def kubernetes_version() -> str:
    """The version of the cluster, such as v1.34.4."""
    return str(_pins()["kubernetes"]["version"])


def kubernetes_minor() -> tuple[int, int]:
    """Its major and minor version, such as (1, 34)."""
    major, minor, _ = kubernetes_version().removeprefix("v").split(".")
    return int(major), int(minor)


def go_modules() -> dict[str, str]:
    """The pinned modules that one go.mod requires together, with their versions."""
    shared = [pin for pin in _pins().values() if "module" in pin and "alone" not in pin]
    return {pin["module"]: pin["version"] for pin in shared}


@cache
def go_tools() -> dict[str, GoTool]:
    found = (tool for name, pin in _pins().items() for tool in _tools_of(name, pin))
    return {tool.name: tool for tool in found}


def _tools_of(name: str, pin: dict[str, Any]) -> list[GoTool]:
    alone = Module(pin["module"], pin["version"]) if "alone" in pin else None
    if "source" in pin:
        source = str(pin["source"])
        return [GoTool(name, f"./{source}", HERE / "images" / source, alone)]
    if "binaries" in pin:
        return [GoTool(binary, f"{pin['package']}/{binary}") for binary in pin["binaries"]]
    return [GoTool(name, pin.get("package", pin["module"]), alone=alone)]


def published_node_image() -> str:
    """The node image that was released with this version of kind, or PENSTOCK_NODE_IMAGE."""
    return os.environ.get("PENSTOCK_NODE_IMAGE") or str(_pins()["kind"]["node_image"])
