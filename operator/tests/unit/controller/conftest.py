"""What the tests of the whole controller share."""

from __future__ import annotations

import pytest

from testkit.controller.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster with one running stream."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    return cluster
