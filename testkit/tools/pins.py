"""Reads versions.toml."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testkit.paths import HERE


@dataclass(frozen=True)
class GoTool:
    """One Go module and the commands built from it, or a program of our own (no module)."""

    name: str
    module: str
    version: str
    package: str
    binaries: tuple[str, ...]
    source: Path | None = None
    """A main package of our own, instead of one in the module."""

    def packages(self, names: list[str]) -> list[str]:
        """The arguments of `go build` for these binaries."""
        if self.source is not None:
            return ["."]
        if self.package.endswith("/cmd"):
            return [f"{self.package}/{name}" for name in names]
        return [self.package]


@cache
def _versions() -> dict[str, dict[str, object]]:
    with (HERE / "versions.toml").open("rb") as file:
        return tomllib.load(file)


def debian_release() -> str:
    """The Debian release of every image."""
    return str(_versions()["debian"])


def go_tool(name: str) -> GoTool:
    """The pinned module under this name in versions.toml."""
    pin = _versions()[name]
    binaries = pin.get("binaries", [name])
    assert isinstance(binaries, list)
    source = pin.get("source")
    return GoTool(
        name=name,
        module=str(pin.get("module", "")),
        version=str(pin.get("version", "")),
        package=str(pin.get("package", pin.get("module", ""))),
        binaries=tuple(str(binary) for binary in binaries),
        source=HERE / "tools" / str(source) if source else None,
    )


def go_tools() -> list[GoTool]:
    """Every pinned Go module."""
    return [go_tool(name) for name, pin in _versions().items() if isinstance(pin, dict)]


def published_node_image() -> str:
    """The node image that was released with this version of kind."""
    return str(_versions()["kind"]["node_image"])
