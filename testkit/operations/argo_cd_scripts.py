"""What Argo CD makes of a stream, by the customization of examples/gitops, in its Lua 5.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from lupa.lua51 import LuaRuntime, lua_type

from testkit.paths import CHECKOUT

_KIND = "penstock.dev_ContinuousStream"
_FILE = CHECKOUT / "examples" / "gitops" / "argocd" / "argocd-cm.yaml"


@dataclass(frozen=True)
class Customization:
    """The scripts for a ContinuousStream in Argo CD's ConfigMap."""

    health_script: str
    discovery: str
    actions: dict[str, str]

    def health(self, stream: dict[str, Any]) -> tuple[str, str]:
        found = _run(self.health_script, stream)
        return str(found["status"]), str(found["message"])

    def offered(self, stream: dict[str, Any]) -> dict[str, bool]:
        found = _run(self.discovery, stream)
        return {name: not each["disabled"] for name, each in found.items()}

    def after(self, action: str, stream: dict[str, Any]) -> dict[str, Any]:
        """The stream that an action makes of a stream."""
        changed: dict[str, Any] = _run(self.actions[action], stream)
        return changed


def customization() -> Customization:
    data = yaml.safe_load(_FILE.read_text())["data"]
    actions = yaml.safe_load(data[f"resource.customizations.actions.{_KIND}"])
    return Customization(
        data[f"resource.customizations.health.{_KIND}"],
        actions["discovery.lua"],
        {action["name"]: action["action.lua"] for action in actions["definitions"]},
    )


def _run(script: str, stream: dict[str, Any]) -> Any:
    lua = LuaRuntime()
    lua.globals().obj = lua.table_from(stream, recursive=True)
    return _plain(lua.execute(script))


def _plain(value: Any) -> Any:
    if lua_type(value) != "table":
        return value
    keys = list(value)
    if keys and keys == list(range(1, len(keys) + 1)):
        return [_plain(value[key]) for key in keys]
    return {key: _plain(value[key]) for key in keys}
