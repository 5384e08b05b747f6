"""Plugins of pytest, which the checkout's conftest.py registers, and a session to test them in."""
