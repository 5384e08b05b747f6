"""Compiles the pinned tools with ordinary Go commands, once for each state of the pins.

One go.mod requires almost all pinned modules, so that the libraries that they share (those of
Kubernetes above all) are compiled once. A tool that needs other versions has a go.mod of its own.
Go verifies every download against its checksum database. There is no vendored code and no go.sum:
each go.mod is written from the pins, and Go's minimal version selection resolves the rest.
"""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from testkit.commands import print_progress
from testkit.content_hash import build_once, content_hash
from testkit.errors import ClusterError
from testkit.file_lock import file_lock
from testkit.paths import cache_dir
from testkit.tools import go_command
from testkit.tools.go_command import go
from testkit.tools.go_mod import own_go_mod, shared_go_mod
from testkit.tools.pins import (
    GoTool,
    Module,
    go_modules,
    go_tools,
    kubernetes_minor,
    kubernetes_version,
)

_BUILD_SECONDS = 3600


def tool_names() -> list[str]:
    return list(go_tools())


def tool(name: str) -> Path:
    """The path of one tool, which is compiled first if it is missing."""
    return tools(name)[name]


def tools(*names: str) -> dict[str, Path]:
    """The paths of several tools. Those that are missing are compiled, if they can be together."""
    unknown = set(names) - set(tool_names())
    if unknown:
        raise ClusterError(f"There is no tool {', '.join(sorted(unknown))}; known: {tool_names()}")
    paths = {name: _path(go_tools()[name]) for name in names}
    if not all(path.exists() for path in paths.values()):
        with file_lock("go"):
            missing = [go_tools()[name] for name, path in paths.items() if not path.exists()]
            for alone, together in _by_go_mod(missing).items():
                _build(together, own_go_mod(alone) if alone else shared_go_mod())
    return paths


def tool_key(name: str) -> str:
    """The name of a tool with a hash of its inputs; compiles nothing."""
    return _path(go_tools()[name]).parent.name


def sources(name: str) -> Path:
    """The folder with the sources of a tool that is compiled alone, and the files beside them."""
    module = go_tools()[name].alone
    if module is None:
        raise ClusterError(f"{name} is not compiled alone: testkit/versions.toml")
    return go_command.sources(module)


def _path(wanted: GoTool) -> Path:
    """`.../NAME`, in its own folder so that the folder can be on a PATH."""
    # All pins: each can change the version of a library that another one's tools contain.
    shared = [str(Module(path, version)) for path, version in go_modules().items()]
    pins = [str(wanted.alone)] if wanted.alone else shared
    source = [wanted.source] if wanted.source else []
    key = content_hash(wanted.package, pins, _flags(), *source)
    return cache_dir("tools") / f"{wanted.name}-{key}" / wanted.name


def _flags() -> list[str]:
    """The flags of `go build`, with the versions that Kubernetes' and helm's own builds stamp."""
    version = kubernetes_version()
    major, minor = kubernetes_minor()
    of_kubernetes = {
        "gitVersion": version,
        "gitMajor": str(major),
        "gitMinor": str(minor),
        "gitTreeState": "clean",
    }
    of_helm = {"k8sVersionMajor": str(major), "k8sVersionMinor": str(minor)}
    stamped = {
        "k8s.io/component-base/version": of_kubernetes,
        "k8s.io/client-go/pkg/version": of_kubernetes,
        "helm.sh/helm/v4/pkg/chart/common": of_helm,
        "helm.sh/helm/v4/pkg/chart/v2/lint/rules": of_helm,
    }
    stamps = [
        f"-X {package}.{name}={value}"
        for package, values in stamped.items()
        for name, value in values.items()
    ]
    return ["-trimpath", "-buildvcs=false", f"-ldflags={' '.join(['-s', '-w', *stamps])}"]


def _by_go_mod(wanted: Sequence[GoTool]) -> dict[Module | None, list[GoTool]]:
    groups: dict[Module | None, list[GoTool]] = {}
    for tool_name in wanted:
        groups.setdefault(tool_name.alone, []).append(tool_name)
    return groups


def _build(missing: Sequence[GoTool], go_mod: str) -> None:
    names = " ".join(wanted.name for wanted in missing)
    print_progress(f"compiling {names} (minutes without a cache)")
    work = cache_dir("go", "src") / "tools"
    shutil.rmtree(work, ignore_errors=True)
    out = work / "bin"
    out.mkdir(parents=True)
    (work / "go.mod").write_text(go_mod)
    for wanted in missing:
        if wanted.source is not None:
            shutil.copytree(wanted.source, work / wanted.package)
    packages = [wanted.package for wanted in missing]
    go("build", *_flags(), "-o", f"{out}/", *packages, cwd=work, timeout=_BUILD_SECONDS)
    for wanted in missing:
        built = out / _built_name(wanted.package)
        build_once(_path(wanted).parent, partial(_move, built, wanted.name))
    shutil.rmtree(work)


def _built_name(package: str) -> str:
    """How `go build` names the command of a package: /v3 at its end is a version, not a name."""
    *_, parent, last = ["", *package.split("/")]
    is_version = last[:1] == "v" and last[1:].isdigit()
    return parent if is_version else last


def _move(built: Path, name: str, folder: Path) -> None:
    shutil.move(built, folder / name)
