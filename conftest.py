"""Every run of the whole suite proves what the documents claim."""

import pytest

from testkit.paths import CHECKOUT
from testkit.proofs import Proofs


def pytest_configure(config: pytest.Config) -> None:
    """Registers the check of the tests that docs/ names."""
    config.pluginmanager.register(Proofs(CHECKOUT / "docs"))
