"""What watches the cluster while faults hit it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.chaos.alerting import Alerting, alerting
from testkit.cluster.install import Installation


@pytest.fixture(scope="module")
def alerts(
    installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Alerting]:
    """Prometheus with the chart's monitors and rules."""
    with alerting(installation.cluster, tmp_path_factory.mktemp("alerting")) as running:
        yield running
