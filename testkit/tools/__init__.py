"""Tools: compiled from pinned Go modules, or unpacked from Debian packages."""

from testkit.tools.build import tool, tool_key, tool_names, tools

__all__ = ["tool", "tool_key", "tool_names", "tools"]
