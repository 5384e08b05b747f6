"""What the tests of the whole controller share."""

from __future__ import annotations

import pytest
from hypothesis import settings

from testkit.controller.fake_cluster import FakeCluster

settings.register_profile("busy")  # a busy machine is no failure
settings.load_profile("busy")


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster with one running stream."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    return cluster
