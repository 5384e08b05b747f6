"""The Go command, with its downloads and compiled packages in our cache."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testkit import system_packages
from testkit.commands import run
from testkit.paths import cache_dir
from testkit.tools.pins import Module

_HINT = (
    "Needs Go 1.24 or newer on the PATH, and access to Go modules (GOPROXY) and to their checksum "
    "database (GOSUMDB)."
)


def go(*words: str, cwd: Path | None = None, timeout: float = 600) -> str:
    """Runs a command of Go and returns what it prints."""
    system_packages.require("go")
    folder = cwd or cache_dir("go", "src")
    return run(["go", *words], cwd=folder, env=_env(), timeout=timeout, hint=_HINT)


def sources(module: Module) -> Path:
    """The folder of a module, which is downloaded first if it is missing."""
    return Path(_downloaded(module)["Dir"])


def go_mod_of(module: Module) -> dict[str, Any]:
    """A module's own go.mod, parsed."""
    parsed: dict[str, Any] = json.loads(go("mod", "edit", "-json", _downloaded(module)["GoMod"]))
    return parsed


def _downloaded(module: Module) -> Mapping[str, str]:
    found: dict[str, str] = json.loads(go("mod", "download", "-json", str(module)))
    return found


def _env() -> dict[str, str]:
    return {
        "CGO_ENABLED": "0",
        # -mod=mod lets the build itself fill in what the pins imply; -modcacherw keeps the cache
        # an ordinary folder that `rm -r` removes.
        "GOFLAGS": "-mod=mod -modcacherw",
        "GOWORK": "off",
        # Without collecting garbage below two gibibytes the compiler takes a quarter less time.
        "GOGC": "off",
        "GOMEMLIMIT": "2GiB",
        "GOCACHE": str(cache_dir("go", "build")),
        "GOMODCACHE": str(cache_dir("go", "mod")),
    }
