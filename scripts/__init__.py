"""The project's own chores."""
