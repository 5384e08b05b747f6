"""Tools: compiled from pinned Go modules, or unpacked from Debian packages."""

from testkit.tools.build import sources, tool, tool_key, tool_names, tools

__all__ = ["sources", "tool", "tool_key", "tool_names", "tools"]
