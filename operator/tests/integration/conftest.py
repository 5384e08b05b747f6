"""Tests with real parts on this machine: Spark, a Kafka broker, an API server."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks every test below this folder."""
    item.add_marker("real")
