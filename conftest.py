"""What every run of tests does, whichever part of the suite it runs."""

import pytest

from testkit.paths import CHECKOUT
from testkit.plugins.figures import Figures
from testkit.plugins.proofs import Proofs
from testkit.plugins.workers import Workers


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugins of the testkit."""
    for plugin in (Proofs(CHECKOUT / "docs"), Figures(), Workers()):
        config.pluginmanager.register(plugin)
