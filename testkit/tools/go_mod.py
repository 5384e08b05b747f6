"""The go.mod files with which the tools are compiled, from the pins.

Go follows the replacements in a module's own go.mod only where that module is compiled itself. As a
module that others require it needs them in their go.mod.
"""

from typing import Any

from testkit.tools.go_command import go_mod_of
from testkit.tools.pins import Module, go_modules

_NAME = "module penstock.invalid/tools"
_KUBERNETES = "k8s.io/kubernetes"


def shared_go_mod() -> str:
    """Requires all pinned modules that are not compiled alone."""
    pinned = go_modules()
    # Kubernetes' own go.mod replaces its staging modules by folders. They are published as well, as
    # v0.MINOR.PATCH.
    staged = "v0." + pinned[_KUBERNETES].split(".", 1)[1]
    kubernetes = Module(_KUBERNETES, pinned[_KUBERNETES])
    return _text(
        "go 1.24.0",
        "godebug default=go1.24",  # as in Kubernetes' own go.mod
        *(f"require {path} {version}" for path, version in pinned.items()),
        *(f"replace {path} => {path} {staged}" for path in _staging_modules(kubernetes)),
    )


def own_go_mod(module: Module) -> str:
    """Requires one module, with the replacements of its own go.mod."""
    upstream = go_mod_of(module)
    return _text(
        f"go {upstream['Go']}",
        f"require {module.path} {module.version}",
        *(
            f"replace {_words(replaced['Old'])} => {_words(replaced['New'])}"
            for replaced in upstream["Replace"] or ()
        ),
    )


def _staging_modules(kubernetes: Module) -> list[str]:
    return [
        replaced["Old"]["Path"]
        for replaced in go_mod_of(kubernetes)["Replace"]
        if replaced["New"]["Path"].startswith("./staging/")
    ]


def _words(module: dict[str, Any]) -> str:
    """A module as go.mod names it: its path, and its version if it has one."""
    return f"{module['Path']} {module.get('Version', '')}".rstrip()


def _text(*lines: str) -> str:
    return "\n".join([_NAME, *lines]) + "\n"
