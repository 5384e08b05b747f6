"""Compiles the pinned tools with ordinary Go commands, once for each version and set of flags.

Go verifies every download against its checksum database. There is no vendored code and no go.sum:
the go.mod is written from the pin, and Go's minimal version selection resolves the rest.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from testkit import system_packages
from testkit.commands import print_progress, run
from testkit.content_hash import build_once, content_hash
from testkit.errors import ClusterError
from testkit.paths import cache_dir
from testkit.tools.pins import GoTool, go_tools

_GO_HINT = (
    "Needs Go 1.24 or newer on the PATH, and access to Go modules (GOPROXY) and to their checksum "
    "database (GOSUMDB)."
)
_BUILD_SECONDS = 3600


def tool_names() -> list[str]:
    """The names of all tools."""
    return [binary for module in go_tools() for binary in module.binaries]


def tool(name: str) -> Path:
    """The path of one tool, which is compiled first if it is missing."""
    return tools(name)[name]


def tools(*names: str) -> dict[str, Path]:
    """The paths of several tools. Tools of one module are compiled together, which is faster."""
    unknown = set(names) - set(tool_names())
    if unknown:
        raise ClusterError(f"There is no tool {', '.join(sorted(unknown))}; known: {tool_names()}")
    paths: dict[str, Path] = {}
    for module in go_tools():
        wanted = [name for name in module.binaries if name in names]
        if wanted:
            paths.update(_module_tools(module, wanted))
    return paths


def _module_tools(module: GoTool, names: list[str]) -> dict[str, Path]:
    paths = {name: _path(module, name) for name in names}
    if any(not path.exists() for path in paths.values()):
        with _lock(module.name):
            missing = [name for name, path in paths.items() if not path.exists()]
            if missing:
                _build(module, missing)
    return paths


def tool_key(name: str) -> str:
    """The name of a tool with a hash of its inputs; compiles nothing."""
    module = next(module for module in go_tools() if name in module.binaries)
    return _path(module, name).parent.name


def _path(module: GoTool, name: str) -> Path:
    """`.../NAME`, in its own folder so that the folder can be on a PATH."""
    inputs = [module.module, module.version, module.package, " ".join(_flags(module))]
    source = [module.source] if module.source else []
    return cache_dir("tools") / f"{name}-{content_hash(*inputs, *source)}" / name


def _flags(module: GoTool) -> list[str]:
    stamps = ["-s", "-w"]
    if module.name == "kubernetes":
        major, minor, _ = module.version.removeprefix("v").split(".")
        values = {
            "gitVersion": module.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            stamps += [f"-X {package}.{key}={value}" for key, value in values.items()]
    return ["-trimpath", "-buildvcs=false", f"-ldflags={' '.join(stamps)}"]


def _build(module: GoTool, names: list[str]) -> None:
    system_packages.require("go")
    print_progress(
        f"compiling {' '.join([*names, module.version]).strip()} (minutes without a cache)"
    )
    work = cache_dir("go", "src") / module.name
    shutil.rmtree(work, ignore_errors=True)
    if module.source is None:
        work.mkdir()
    else:
        shutil.copytree(module.source, work)
    (work / "go.mod").write_text(_go_mod(module))
    out = work / "bin"
    out.mkdir()
    target = str(out) if len(names) > 1 else str(out / names[0])
    command = ["go", "build", *_flags(module), "-o", target, *module.packages(names)]
    run(command, cwd=work, env=_go_env(), timeout=_BUILD_SECONDS, hint=_GO_HINT)
    for name in names:
        build_once(_path(module, name).parent, partial(_move_into, out / name))
    shutil.rmtree(work)


def _move_into(built: Path, folder: Path) -> None:
    shutil.move(built, folder / built.name)


def _go_mod(module: GoTool) -> str:
    lines = [f"module penstock.invalid/{module.name}", "", "go 1.24.0", ""]
    if module.name == "kubernetes":
        lines += ["godebug default=go1.24", ""]
    if module.module:
        lines += [f"require {module.module} {module.version}", ""]
    if module.name == "kubernetes":
        # Kubernetes' own go.mod replaces its staging modules by folders, which only counts in its
        # own tree. They are published as well, as v0.MINOR.PATCH.
        staged = "v0." + module.version.split(".", 1)[1]
        lines += [f"replace {path} => {path} {staged}" for path in _staging_modules(module)]
    return "\n".join(lines) + "\n"


def _staging_modules(module: GoTool) -> list[str]:
    pin = f"{module.module}@{module.version}"
    scratch = cache_dir("go", "src")
    output = run(
        ["go", "mod", "download", "-json", pin],
        cwd=scratch,
        env=_go_env(),
        timeout=600,
        hint=_GO_HINT,
    )
    upstream = json.loads(output)["GoMod"]
    parsed = json.loads(run(["go", "mod", "edit", "-json", upstream], cwd=scratch, env=_go_env()))
    return [
        replaced["Old"]["Path"]
        for replaced in parsed["Replace"]
        if replaced["New"]["Path"].startswith("./staging/")
    ]


def _go_env() -> dict[str, str]:
    return {
        "CGO_ENABLED": "0",
        # -mod=mod lets the build itself fill in what the pin implies; -modcacherw keeps the cache
        # an ordinary folder that `rm -r` removes.
        "GOFLAGS": "-mod=mod -modcacherw",
        "GOWORK": "off",
        "GOCACHE": str(cache_dir("go", "build")),
        "GOMODCACHE": str(cache_dir("go", "mod")),
    }


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Lets only one process at a time compile a module."""
    with (cache_dir("go") / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
