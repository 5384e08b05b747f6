"""Plugins of pytest, which the checkout's conftest.py registers."""
