"""`make demo-cluster` runs the example fraud-flags.yaml as it is and deletes its driver's pod."""

import pytest

from demo import cluster
from testkit.cluster.install import Installation
from testkit.cluster.stream import KIND

pytestmark = [pytest.mark.timeout(600), pytest.mark.full]


def test_the_demo_loses_no_flag(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with exit code 0, and says what it counted and what to try next."""
    assert cluster.main(watch_seconds=3) == 0
    said = capsys.readouterr().out
    assert "Ready again after" in said
    assert " 0 lost, 0 wrong, " in said
    assert "make cluster-down" in said
    installation.kube(cluster.NAMESPACE).delete(KIND, "fraud-flags")
