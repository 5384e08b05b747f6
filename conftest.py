"""What every run of tests does, whichever part of the suite it runs."""

import pytest
from hypothesis import settings

from testkit import doctor
from testkit.plugins.figures import Figures
from testkit.plugins.missing_parts import MissingParts, in_ci
from testkit.plugins.proofs import Proofs
from testkit.plugins.workers import Workers

# A test asserts nothing about time: the machine may be busy.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugins of the testkit."""
    proofs = [Proofs()] if in_ci() else []
    for plugin in (*proofs, Figures(), MissingParts(doctor.lacking), Workers()):
        config.pluginmanager.register(plugin)
