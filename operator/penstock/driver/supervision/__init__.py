"""Keeps one query running: observe, decide, act. May import every other package of the driver."""
