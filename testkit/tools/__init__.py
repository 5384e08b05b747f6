"""Pinned tools, compiled on this machine from Go modules."""

from testkit.tools.build import tool, tool_key, tool_names, tools

__all__ = ["tool", "tool_key", "tool_names", "tools"]
