"""Faults of brokers, topics and drivers, with real parts on this machine."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("real")
