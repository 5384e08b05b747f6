"""A stream's status: its state, conditions, restart counts, effective settings and events. Pure."""
