"""A stream's status: its state, conditions, restart counts and events. Pure."""
