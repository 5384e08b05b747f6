"""A driver to test: in this process, as a process, or without its loop."""
