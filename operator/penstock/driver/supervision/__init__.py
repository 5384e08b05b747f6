"""Keeps one query running: observe, decide, act. Imports every other room of the driver."""
