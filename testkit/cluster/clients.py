"""kubectl, helm and kind: this machine's own, or compiled ones."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from testkit.engine.container_engine import registry_is_reachable
from testkit.tools.build import tool
from testkit.tools.installed import installed

CLIENTS = ("kubectl", "helm", "kind")


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
